// Several collectives as one.
#include <array>
#include <vector>

#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {
namespace {

RANK_TEST(Coalesced, AllReductionsAreRight) {
  ProcessGroup& group = world.group();
  const std::uint64_t before = group.collective_sequence();
  std::vector<float> first(3, static_cast<float>(world.rank()));
  std::vector<float> second(1000, 1.0f);
  std::vector<float> none;
  const std::array<BufferView, 3> views{first, second, none};
  group.all_reduce_coalesced(views);
  EXPECT_EQ(first,
            std::vector<float>(3, static_cast<float>(world.size() * (world.size() - 1) / 2)));
  EXPECT_EQ(second, std::vector<float>(1000, static_cast<float>(world.size())));
  EXPECT_EQ(group.collective_sequence(), before + 3) << "each of them counts";
}

RANK_TEST(Coalesced, RequestsMayHaveDifferentDtypes) {
  std::vector<std::int64_t> first(3, world.rank());
  std::vector<float> second(1000, 1.0f);
  const std::array requests{Request::all_reduce(BufferView(first), BufferView(first)),
                            Request::all_reduce(BufferView(second), BufferView(second))};
  world.group().start_coalesced(requests).wait();
  EXPECT_EQ(first, std::vector<std::int64_t>(3, world.size() * (world.size() - 1) / 2));
  EXPECT_EQ(second, std::vector<float>(1000, static_cast<float>(world.size())));
}

RANK_TEST(Coalesced, GathersAndScattersAreRight) {
  ProcessGroup& group = world.group();
  const auto ranks = static_cast<std::size_t>(world.size());
  const std::array<std::int32_t, 2> given{10 + world.rank(), -world.rank()};
  std::array<std::vector<std::int32_t>, 2> all{std::vector<std::int32_t>(ranks),
                                               std::vector<std::int32_t>(ranks)};
  const std::array<ConstBufferView, 2> ins{view_of(given[0]), view_of(given[1])};
  const std::array<BufferView, 2> outs{all[0], all[1]};
  group.all_gather_coalesced(ins, outs);
  for (int rank = 0; rank < world.size(); ++rank) {
    EXPECT_EQ(all[0][static_cast<std::size_t>(rank)], 10 + rank);
    EXPECT_EQ(all[1][static_cast<std::size_t>(rank)], -rank);
  }
  std::array<std::int32_t, 2> parts{};
  const std::array<ConstBufferView, 2> wholes{all[0], all[1]};
  const std::array<BufferView, 2> blocks{view_of(parts[0]), view_of(parts[1])};
  group.reduce_scatter_coalesced(wholes, blocks);
  EXPECT_EQ(parts[0], world.size() * (10 + world.rank()));
  EXPECT_EQ(parts[1], -world.size() * world.rank());
}

RANK_TEST(Coalesced, OneWorkStandsForAll) {
  ProcessGroup& group = world.group();
  std::vector<std::int64_t> values(5, 1);
  std::vector<Request> requests;
  for (std::int64_t& value : values)
    requests.push_back(Request::all_reduce(view_of(value), view_of(value)));
  Work work = group.start_coalesced(requests);
  std::int64_t next = 1;
  Work other = group.all_reduce_async(view_of(next));
  other.wait();
  EXPECT_TRUE(work.is_completed()) << "collectives complete in the order in which they start";
  work.wait();
  EXPECT_EQ(work.type(), OpType::all_reduce);
  EXPECT_EQ(work.result().size(), 5u);
  EXPECT_EQ(other.sequence(), work.sequence() + 5);
  EXPECT_EQ(values, std::vector<std::int64_t>(5, world.size()));
  EXPECT_EQ(next, world.size());
}

RANK_TEST(Coalesced, WrongOnesAreRefusedBeforeAnyStarts) {
  ProcessGroup& group = world.group();
  const std::uint64_t before = group.collective_sequence();
  std::int64_t value = 1;
  float number = 1;
  const Request fine = Request::all_reduce(view_of(value), view_of(value));
  expect_error(ErrorKind::usage, [&] { (void)group.start_coalesced({}); }, {"nothing to coalesce"});
  const std::array mixed{fine, Request::barrier()};
  expect_error(ErrorKind::usage, [&] { (void)group.start_coalesced(mixed); },
               {"all_reduce and barrier"});
  const std::array sends{Request::send(view_of(value), 0)};
  expect_error(ErrorKind::usage, [&] { (void)group.start_coalesced(sends); }, {"of one kind"});
  const std::array bad{fine, Request::all_reduce(view_of(value), view_of(number))};
  expect_error(ErrorKind::usage, [&] { (void)group.start_coalesced(bad); });
  const std::array<ConstBufferView, 1> ins{view_of(value)};
  expect_error(ErrorKind::usage, [&] { group.all_gather_coalesced(ins, {}); },
               {"numbers of inputs"});
  EXPECT_EQ(group.collective_sequence(), before);
  group.barrier();
}

}  // namespace
}  // namespace hymn::test
