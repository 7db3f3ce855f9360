// Calls that differ from rank to rank, without any check being asked for: on every road where what
// a call asks for travels with its data, all ranks learn of it, and none gets wrong data as if they
// were right. docs/checks.md.
#include <chrono>
#include <numeric>

#include "tests/support/errors.hpp"
#include "tests/support/known_call.hpp"
#include "tests/support/rank_test.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// How the last rank's call differs.
enum class Difference { count, dtype, reduction, root, collective };

std::string_view name_of(Difference difference) {
  switch (difference) {
    case Difference::count:
      return "count";
    case Difference::dtype:
      return "dtype";
    case Difference::reduction:
      return "reduction";
    case Difference::root:
      return "root";
    case Difference::collective:
      return "collective";
  }
  return "";
}

bool applies(Difference difference, OpType type) {
  if (difference == Difference::reduction) return reduces(type);
  if (difference == Difference::root) return has_root(type);
  return difference == Difference::collective || type != OpType::barrier;
}

CallPlan other_than(CallPlan plan, Difference difference, int ranks) {
  switch (difference) {
    case Difference::count:
      ++plan.count;
      break;
    case Difference::dtype:
      plan.dtype = DataType::float32;
      break;
    case Difference::reduction:
      plan.kind = ReduceKind::max;
      break;
    case Difference::root:
      plan.root = (plan.root + 1) % ranks;
      break;
    case Difference::collective:
      plan.type = plan.type == OpType::broadcast ? OpType::barrier : OpType::broadcast;
      break;
  }
  return plan;
}

/// The call, and then some that all ranks make alike: whoever only gives hears of the others by
/// these. What has been thrown, or nothing.
std::exception_ptr call_and_go_on(ProcessGroup& group, const KnownCall& call, bool flies) {
  try {
    if (flies)
      group.start(call.request()).wait();
    else
      group.run(call.request());
    call.check();  // what is told to be there is right
    for (int turn = 0; turn < 2; ++turn) group.barrier();
  } catch (const Error&) {
    return std::current_exception();
  }
  return nullptr;
}

bool names_both(const std::string& text) {
  return text.find("different calls") != std::string::npos ||
         text.find("differs: ") != std::string::npos;
}

void expect_found(World& world, const Road& road, const CallPlan& plan, Difference difference,
                  bool flies) {
  SCOPED_TRACE(to_string(road) + ": " + describe(plan) + "; another " +
               std::string(name_of(difference)) + " on the last rank" + (flies ? ", flying" : ""));
  ProcessGroup group = world.new_group(everybody(world), forced(road));
  const bool is_other = world.rank() == world.size() - 1;
  const KnownCall call(group, is_other ? other_than(plan, difference, world.size()) : plan);
  if (group.explain(KnownCall(group, plan).request()).algorithm.empty()) return;
  group.set_timeout(50s);
  const auto before = std::chrono::steady_clock::now();
  const std::exception_ptr thrown = call_and_go_on(group, call, flies);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 30s);
  std::int32_t told = 0;
  try {
    if (thrown) std::rethrow_exception(thrown);
    ADD_FAILURE() << "nobody has told rank " << world.rank();
  } catch (const Error& error) {
    EXPECT_TRUE(error.kind() == ErrorKind::usage || error.kind() == ErrorKind::aborted)
        << error.what();
    told = names_both(error.what()) ? 1 : 0;
    EXPECT_EQ(told, 1) << error.what();
  }
}

/// MPI's own collectives carry nothing of hymn's.
bool tells_calls_apart(const Road& road) { return road.path != "mpi"; }

void every_difference(World& world, OpType type, std::size_t count) {
  NEEDS_RANKS(2);
  int turn = 0;
  for (const Road& road : roads_of(world.group(), type)) {
    if (!tells_calls_apart(road)) continue;
    for (const Difference difference : {Difference::count, Difference::dtype, Difference::reduction,
                                        Difference::root, Difference::collective})
      if (applies(difference, type))
        expect_found(world, road,
                     {.type = type, .dtype = DataType::int32, .count = count, .root = 0},
                     difference, ++turn % 2 == 0);
  }
}

RANK_TEST(OtherCalls, AllReduce) {
  for (const std::size_t count : {3, 3000}) every_difference(world, OpType::all_reduce, count);
}
RANK_TEST(OtherCalls, Broadcast) {
  for (const std::size_t count : {1, 1000, 300000})
    every_difference(world, OpType::broadcast, count);
}
RANK_TEST(OtherCalls, Reduce) {
  for (const std::size_t count : {2, 30000}) every_difference(world, OpType::reduce, count);
}
RANK_TEST(OtherCalls, Gather) { every_difference(world, OpType::gather, 100); }
RANK_TEST(OtherCalls, Scatter) {
  for (const std::size_t count : {2, 2000}) every_difference(world, OpType::scatter, count);
}
RANK_TEST(OtherCalls, AllGather) { every_difference(world, OpType::all_gather, 100); }
RANK_TEST(OtherCalls, ReduceScatter) { every_difference(world, OpType::reduce_scatter, 100); }
RANK_TEST(OtherCalls, Scan) {
  for (const std::size_t count : {3, 30000}) every_difference(world, OpType::scan, count);
}
RANK_TEST(OtherCalls, Exscan) { every_difference(world, OpType::exscan, 100); }
RANK_TEST(OtherCalls, AllToAll) { every_difference(world, OpType::all_to_all, 100); }
RANK_TEST(OtherCalls, Barrier) { every_difference(world, OpType::barrier, 0); }

// What one rank gives another by counts no label tells: but who receives it knows how much comes.
RANK_TEST(OtherCalls, LessIsGivenThanIsReceived) {
  if (world.size() < 2) return;
  std::vector<std::string> paths = {"exchange"};
  if (!ranks_are_threads()) paths.push_back("mpi_p2p");
  for (const std::string& path : paths) {
    SCOPED_TRACE(path);
    const auto size = static_cast<std::size_t>(world.size());
    ProcessGroup group =
        world.new_group(world.group().membership().ranks, {.timeout = 20s, .path = path});
    std::vector<std::size_t> given(size, 100);
    const std::vector<std::size_t> received(size, 100);
    if (world.rank() == 1) given[0] = 90;
    const std::size_t all = std::accumulate(given.begin(), given.end(), std::size_t{0});
    const std::vector<int> in(all, 1);
    std::vector<int> out(100 * size);
    const auto exchange = [&] {
      group.all_to_all(ConstBufferView(in.data(), all, DataType::int32), given,
                       BufferView(out.data(), out.size(), DataType::int32), received);
    };
    if (world.rank() == 0)
      expect_error(ErrorKind::usage, exchange, {"has sent 360 bytes for 400"});
    else
      try {
        exchange();
      } catch (const AbortedError&) {  // where rank 0 was sooner
      }
    EXPECT_THROW(group.barrier(), AbortedError);
    world.group().barrier();
  }
}

}  // namespace
}  // namespace hymn::test
