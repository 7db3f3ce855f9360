// Collectives across hosts: where they can run, that all ranks get the same bits, and what happens
// when a rank does not come. What they compute is tested with all other algorithms.
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <numeric>
#include <set>
#include <thread>

#include "runtime/world/world_state.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/hosts.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

ProcessGroup group_of_all(World& world, const GroupOptions& options) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.new_group(ranks, options);
}

ProcessGroup across_hosts(World& world, Timeout timeout = {}) {
  ProcessGroup group = group_of_all(world, {.description = "across hosts", .path = "hierarchical"});
  // Not for the making of the group, to which ranks may come late.
  if (timeout.is_set()) group.set_timeout(timeout);
  return group;
}

int ranks_on_largest_host(World& world) {
  std::int32_t most = world.local_size();
  world.group().all_reduce(view_of(most), ReduceOp::max);
  return most;
}

/// Whether no rank of another host lies between two of one host.
bool lies_host_by_host(World& world) {
  const std::vector<RankPlace>& here = detail::WorldState::of(world).job_map().places;
  std::int32_t gaps = here.back().rank - here.front().rank + 1 - world.local_size();
  world.group().all_reduce(view_of(gaps), ReduceOp::max);
  return gaps == 0;
}

/// Ends the test where there is nothing to do across hosts.
#define NEEDS_HIERARCHY() \
  if (world.host_count() == 1 || ranks_on_largest_host(world) == 1) return

RANK_TEST(Hosts, WhereTheyCanRun) {
  const int most = ranks_on_largest_host(world);
  std::string refusal;
  if (most == 1) refusal = "every rank is alone on its host";
  if (world.host_count() == 1) refusal = "all ranks are on one host";
  ProcessGroup group = across_hosts(world);
  std::vector<float> one(1);
  std::vector<float> all(static_cast<std::size_t>(world.size()));
  const std::vector<std::size_t> counts(all.size(), 1);
  const std::string no_scan = refusal.empty() && !lies_host_by_host(world)
                                  ? "the ranks of some host do not follow one another"
                                  : refusal;
  const std::vector<Request> requests = {Request::all_reduce(one, one),
                                         Request::broadcast(one, 0),
                                         Request::reduce(one, one, 0),
                                         Request::all_gather(one, OutputBlocks::equal(all)),
                                         Request::reduce_scatter(InputBlocks::equal(all), one),
                                         Request::scan(one, one),
                                         Request::exscan(one, one),
                                         Request::barrier()};
  for (const Request& request : requests) {
    const Explanation why = group.explain(request);
    SCOPED_TRACE(to_string(request.type));
    const std::string name = std::string(to_string(request.type)) + "_hierarchical";
    const std::string& reason = is_prefix(request.type) ? no_scan : refusal;
    EXPECT_EQ(why.algorithm, reason.empty() ? name : "");
    for (const Candidate& candidate : why.candidates) {
      if (candidate.algorithm == name) {
        EXPECT_EQ(candidate.reason, reason);
      }
    }
  }
  // Each rank knows only its own sizes, but these give different pieces.
  const Explanation why =
      group.explain(Request::all_gather(one, OutputBlocks::counted(all, counts)));
  EXPECT_EQ(why.algorithm, "");
}

/// Values whose sum depends on the order of the additions.
float awkward(int rank, std::size_t i) {
  return std::ldexp(1.0F + 0.001F * static_cast<float>((rank + 1) * (i % 97)),
                    (static_cast<int>(i) * 7 + rank * 5) % 23);
}

RANK_TEST(Hosts, SameBitsOnAllRanksAndInEachRun) {
  NEEDS_HIERARCHY();
  ProcessGroup group = across_hosts(world);
  for (const std::size_t count : {1, 700, 5000, 40000, 300001}) {
    std::vector<float> input(count);
    for (std::size_t i = 0; i < count; ++i) input[i] = awkward(world.rank(), i);
    std::vector<float> first(count);
    group.all_reduce(input, first);
    expect_same_everywhere(world.group(), first);
    std::vector<float> again(count);
    group.all_reduce(input, again);
    expect_equal(first, again);
  }
}

RANK_TEST(Hosts, AScanHasTheSameBitsInEachRun) {
  NEEDS_HIERARCHY();
  if (!lies_host_by_host(world)) return;
  ProcessGroup group = across_hosts(world);
  for (const std::size_t count : {1, 700, 5000, 300001}) {
    std::vector<float> input(count);
    for (std::size_t i = 0; i < count; ++i) input[i] = awkward(world.rank(), i);
    std::vector<float> first(count);
    group.scan(input, first);
    std::vector<float> again = input;
    group.scan(again);
    expect_equal(first, again);
    // What comes before it is the same for all of a host, so this is the sum before, and its own.
    std::vector<float> before(count);
    group.exscan(input, before);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(before[i] + input[i], first[i]) << i;
  }
}

/// A group that asks for the bits of a serial sum, wherever its ranks lie, goes another way.
RANK_TEST(Hosts, AScanKeepsNoMoreThanItPromises) {
  NEEDS_HIERARCHY();
  if (!lies_host_by_host(world)) return;
  ProcessGroup group = group_of_all(
      world, {.path = "hierarchical,exchange", .reproducibility = Reproducibility::placement});
  std::vector<float> values(3);
  const Explanation why = group.explain(Request::scan(values, values));
  EXPECT_EQ(why.algorithm, "scan_pairwise");
  for (const Candidate& candidate : why.candidates) {
    if (candidate.algorithm != "scan_hierarchical") continue;
    EXPECT_NE(candidate.reason.find("'placement'"), std::string::npos) << candidate.reason;
  }
}

RANK_TEST(Hosts, SeveralInFlight) {
  NEEDS_HIERARCHY();
  ProcessGroup group = across_hosts(world);
  constexpr std::size_t count = 100000;
  std::vector<std::vector<std::int32_t>> values(6, std::vector<std::int32_t>(count));
  std::vector<Work> works;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::iota(values[i].begin(), values[i].end(), world.rank());
    if (i % 3 == 2) values[i].resize(10);
    works.push_back(i % 3 == 1 ? group.broadcast_async(values[i], world.size() - 1)
                               : group.all_reduce_async(values[i]));
  }
  for (Work& work : works) work.wait();
  const int size = world.size();
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int32_t last = static_cast<std::int32_t>(values[i].size()) - 1;
    const std::int32_t sum = size * last + size * (size - 1) / 2;
    EXPECT_EQ(values[i].back(), i % 3 == 1 ? last + size - 1 : sum) << i;
  }
}

/// One rank does not come: the others say so in time, whether they are on its host or not.
void expect_late(World& world, int absent, std::size_t count) {
  ProcessGroup group = across_hosts(world, 300ms);
  const auto before = std::chrono::steady_clock::now();
  if (world.rank() != absent) {
    std::vector<float> values(count, 1.0F);
    std::exception_ptr caught;
    try {
      group.all_reduce(values);
    } catch (const TimeoutError&) {
      caught = std::current_exception();
    } catch (const AbortedError&) {
      caught = std::current_exception();
    }
    EXPECT_TRUE(caught) << "rank " << world.rank();
    expect_error(ErrorKind::aborted, [&] { group.barrier(); });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - before, 20s);
  world.group().barrier();
}

RANK_TEST(Hosts, ARankIsMissing) {
  NEEDS_HIERARCHY();
  for (const int absent : {0, world.size() - 1})
    for (const std::size_t count : {1, 300000}) expect_late(world, absent, count);
}

RANK_TEST(Hosts, OtherCallsOnOneHost) {
  NEEDS_HIERARCHY();
  ProcessGroup group = across_hosts(world, 20s);
  // All ranks of a host make the same call, but for the last.
  const bool odd = world.local_rank() != 0 && world.local_rank() == world.local_size() - 1;
  std::vector<float> values(odd ? 7 : 8, 1.0F);
  std::string text = error_text([&] { group.all_reduce(values); });
  // "make different calls"; or "makes a different call", where one is not recorded yet.
  std::int32_t found = text.find("different call") != std::string::npos ? 1 : 0;
  world.group().all_reduce(view_of(found), ReduceOp::max);
  EXPECT_EQ(found, 1) << text;
  EXPECT_NE(text, "");
}

using Deed = std::function<void(ProcessGroup&)>;

constexpr int odd_one = 2;  // of ranks 0, 1 and 2 on the first host, of which two are leaders

/// Ranks 0 and 1 do what is usual, rank 2 what is odd. Those on the other host come only where
/// their data is needed to find out.
void expect_found(World& world, const char* what, const Deed& usual, const Deed& odd,
                  bool others_come = false) {
  SCOPED_TRACE(what);
  ProcessGroup group = across_hosts(world, 20s);
  const bool is_odd = world.rank() == odd_one;
  std::string text;
  if (is_odd) text = error_text([&] { odd(group); });
  if (!is_odd && (world.rank() < odd_one || others_come)) text = error_text([&] { usual(group); });
  std::int32_t found = text.find("different call") != std::string::npos ? 1 : 0;
  world.group().all_reduce(view_of(found), ReduceOp::max);
  EXPECT_EQ(found, 1) << text;
}

Deed broadcasts(std::size_t count, int root) {
  return [=](ProcessGroup& group) {
    std::vector<float> values(count);
    group.broadcast(values, root);
  };
}

Deed reduces_to(int root) {
  return [=](ProcessGroup& group) {
    std::vector<float> values(8);
    group.reduce(values, root);
  };
}

void all_reduces(ProcessGroup& group) {
  std::vector<float> values(8);
  group.all_reduce(values);
}

void all_gathers(ProcessGroup& group) {
  std::vector<float> values(8);
  std::vector<float> all(values.size() * static_cast<std::size_t>(group.size()));
  group.all_gather(values, all);
}

TEST(OtherCalls, AreFoundOnTheirHost) {
  run_on_hosts("0,0,0,1,1", [](World& world) {
    const auto barrier = [](ProcessGroup& group) { group.barrier(); };
    expect_found(world, "an all_gather among all_reduces", all_reduces, all_gathers);
    expect_found(world, "an all_reduce among all_gathers", all_gathers, all_reduces);
    expect_found(world, "a barrier among all_reduces", all_reduces, barrier);
    expect_found(world, "a reduce among all_reduces", all_reduces, reduces_to(0));
    expect_found(world, "reduces to 0 and 3", reduces_to(0), reduces_to(3));
    expect_found(world, "a broadcast among all_reduces", all_reduces, broadcasts(8, 3));
    expect_found(world, "an all_reduce among broadcasts", broadcasts(8, 3), all_reduces, true);
    expect_found(world, "broadcasts from 0 and 1", broadcasts(8, 0), broadcasts(8, 1));
    for (const int root : {0, 1, 3})
      for (const std::size_t count : {7, 9, 1000})
        expect_found(world, "a broadcast of another count", broadcasts(8, root),
                     broadcasts(count, root), root == 3);
  });
}

/// Those that come late to a broadcast keep nobody but themselves.
TEST(Hosts, ABroadcastWaitsForItsRootOnly) {
  std::atomic<int> served = 0;
  run_on_hosts("0,0,0,1,1", [&](World& world) {
    ProcessGroup group = across_hosts(world, 20s);
    constexpr int late = 2;
    while (world.rank() == late && served < world.size() - 1) std::this_thread::yield();
    std::vector<float> values(8, world.rank() == 3 ? 1.0F : 0.0F);
    EXPECT_EQ(error_text([&] { group.broadcast(values, 3); }), "");
    EXPECT_EQ(values.back(), 1.0F);
    ++served;
  });
}

}  // namespace
}  // namespace hymn::test
