// What members of a channel that call different things find out of each other, stepped one by one.
#include <set>

#include "collectives/call_label.hpp"
#include "tests/unit/shm_team.hpp"

namespace hymn::test {
namespace {

/// Steps all until one has found out; false when none does.
bool one_finds(Parts& parts, int rounds = 2000) {
  for (int i = 0; i < rounds; ++i) {
    bool done = true;
    for (auto& part : parts) {
      try {
        done &= part->step();
      } catch (const OtherCall&) {
        return true;
      }
    }
    if (done) return false;
  }
  return false;
}

Parts broadcasts_from_itself(Team& team, std::vector<Ints>& data) {
  Parts parts;
  for (int me = 0; me < team.size(); ++me)
    parts.push_back(
        std::make_unique<Part>(team, me, "broadcast_slots", Request::broadcast(data[me], me), me));
  return parts;
}

Parts barriers(Team& team) {
  Parts parts;
  for (int me = 0; me < team.size(); ++me)
    parts.push_back(std::make_unique<Part>(team, me, "barrier_flags", Request::barrier()));
  return parts;
}

/// Roots wait for nobody, so it is the next call by which they hear of each other.
void expect_barrier_finds_roots(int members, bool oversubscribed) {
  SCOPED_TRACE(members);
  Team team(members, oversubscribed);
  std::vector<Ints> data(static_cast<std::size_t>(members), Ints(1));
  Parts first = broadcasts_from_itself(team, data);
  ASSERT_TRUE(finish(first));
  bool found = false;
  try {
    Parts second = barriers(team);
    found = one_finds(second);
  } catch (const OtherCall&) {
    found = true;  // whoever comes last to a counted one
  }
  EXPECT_TRUE(found);
}

TEST(OtherCalls, ABarrierTellsRootsApart) {
  for (const int members : {2, 3, 8, 9, 17})
    for (const bool oversubscribed : {false, true})
      expect_barrier_finds_roots(members, oversubscribed);
}

TEST(OtherCalls, RootsThatOnlyGiveFindOutWhenTheyNeedRoom) {
  for (const std::size_t count : {1u, 12u, 100u, 1000u, 300000u}) {
    Team team(2);
    std::vector<Ints> data(2, Ints(count));
    bool found = false;
    for (int turn = 0; turn < 300 && !found; ++turn) {
      try {
        Parts parts = broadcasts_from_itself(team, data);
        found = one_finds(parts, 1000);
      } catch (const OtherCall&) {
        found = true;
      }
    }
    EXPECT_TRUE(found) << count;
  }
}

TEST(OtherCalls, WhoeverWaitsElsewhereFindsOut) {
  for (const int members : {2, 3, 9}) {
    Team team(members);
    std::vector<Ints> data(static_cast<std::size_t>(members), Ints(2));
    Parts parts;
    for (int me = 0; me < members; ++me)
      parts.push_back(me == 1
                          ? std::make_unique<Part>(team, me, "barrier_flags", Request::barrier())
                          : std::make_unique<Part>(team, me, "all_reduce_one_shot",
                                                   Request::all_reduce(data[me], data[me])));
    EXPECT_TRUE(one_finds(parts)) << members;
  }
}

TEST(OtherCalls, AreToldByEachPartOfALabel) {
  std::set<std::uint64_t> labels;
  std::set<std::uint64_t> short_labels;
  std::size_t calls = 0;
  for (const OpType type : {OpType::all_reduce, OpType::reduce, OpType::broadcast})
    for (const DataType dtype : {DataType::int32, DataType::float32, DataType::float64})
      for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::max, ReduceKind::bxor})
        for (const std::size_t count : {0, 1, 2, 3, 1000, 1 << 20})
          for (const int root : {-1, 0, 1, 2, 255}) {
            const ConstBufferView input(nullptr, count, dtype);
            const BufferView output(nullptr, count, dtype);
            Request request = Request::reduce(input, output, 0);
            request.type = type;
            request.op = ReduceOp::of(kind);
            CallChain chain;
            const std::uint64_t label = chain.next(call_label(request, root));
            labels.insert(label);
            short_labels.insert(upper_bits(label, 28));
            ++calls;
          }
  EXPECT_EQ(labels.size(), calls);
  EXPECT_EQ(short_labels.size(), calls);
}

TEST(OtherCalls, ALabelRemembersAllCallsBefore) {
  CallChain one;
  CallChain other;
  one.next(1);
  other.next(2);
  for (std::uint64_t call = 0; call < 1000; ++call) EXPECT_NE(one.next(call), other.next(call));
  CallChain later;
  later.next(0);
  CallChain sooner;
  EXPECT_NE(later.next(7), sooner.next(7));
}

/// What each rank knows alone is no part of it.
TEST(OtherCalls, LabelsAreOfWhatAllKnow) {
  const std::vector<std::size_t> counts = {3, 0, 5};
  std::vector<float> all(8);
  std::vector<float> few(5);
  const BufferView none(nullptr, 0, DataType::float32);
  const auto gathers = [&](std::size_t own, BufferView out) {
    return call_label(Request::gather(ConstBufferView(few.data(), own, DataType::float32),
                                      OutputBlocks::counted(out, counts), 0),
                      0);
  };
  EXPECT_EQ(gathers(3, all), gathers(5, none));
  std::vector<BufferView> list = {BufferView(all).slice(0, 3), none, BufferView(all).slice(3, 5)};
  const auto lists = [&](std::size_t own, OutputBlocks out) {
    return call_label(Request::gather(ConstBufferView(few.data(), own, DataType::float32), out, 0),
                      0);
  };
  EXPECT_EQ(lists(3, OutputBlocks::list(list)), lists(5, OutputBlocks()));
  EXPECT_NE(lists(3, OutputBlocks::list(list)), gathers(3, all));
}

}  // namespace
}  // namespace hymn::test
