// hymn in a program that has initialised MPI itself, at every level of thread support.
//   adopt_test single|funneled|serialized|multiple
#include <thread>
#include <vector>

#include "tests/mpi/check.hpp"

namespace hymn::test {
namespace {

int rank_in(MPI_Comm communicator) {
  int rank = -1;
  MPI_Comm_rank(communicator, &rank);
  return rank;
}

int size_of(MPI_Comm communicator) {
  int size = -1;
  MPI_Comm_size(communicator, &size);
  return size;
}

int initialise(const std::string& level) {
  if (level == "single") {
    CHECK(MPI_Init(nullptr, nullptr) == MPI_SUCCESS);
  } else {
    const int wanted = level == "funneled"     ? MPI_THREAD_FUNNELED
                       : level == "serialized" ? MPI_THREAD_SERIALIZED
                                               : MPI_THREAD_MULTIPLE;
    int provided = -1;
    CHECK(MPI_Init_thread(nullptr, nullptr, wanted, &provided) == MPI_SUCCESS);
    CHECK(provided == wanted);
  }
  int granted = -1;
  MPI_Query_thread(&granted);
  return granted;
}

void check_group(ProcessGroup& group) {
  const int ranks = group.size();
  std::vector<std::int64_t> sum(100, group.rank() + 1);
  group.all_reduce(sum);
  CHECK(sum == std::vector<std::int64_t>(100, ranks * (ranks + 1) / 2));
  group.all_reduce(sum, ReduceOp::max, {.timeout = Timeout::none()});
  const std::int32_t mine = group.rank();
  std::vector<std::int32_t> all(static_cast<std::size_t>(ranks), -1);
  Work work = group.all_gather_async(view_of(mine), all);
  work.wait();
  for (int i = 0; i < ranks; ++i) CHECK(all[static_cast<std::size_t>(i)] == i);
  float value = group.rank() == ranks - 1 ? 0.5f : 0.0f;
  group.broadcast(view_of(value), group.global_rank(ranks - 1));
  CHECK(value == 0.5f);
}

/// A world of this communicator counts ranks as the communicator does.
void check_world_of(MPI_Comm communicator) {
  World world = world_from_communicator(communicator);
  CHECK(world.rank() == rank_in(communicator));
  CHECK(world.size() == size_of(communicator));
  check_group(world.group());
  ProcessGroup last = world.new_group({world.size() - 1});
  CHECK(last.is_member() == (world.rank() == world.size() - 1));
  if (last.is_member()) check_group(last);
  // The communicator is still the caller's.
  int sum = 1;
  MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, communicator);
  CHECK(sum == world.size());
}

void check_communicators() {
  check_world_of(MPI_COMM_WORLD);
  const int rank = rank_in(MPI_COMM_WORLD);
  MPI_Comm odd_or_even = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &odd_or_even);
  check_world_of(odd_or_even);
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  CHECK(rank_in(reversed) == size_of(MPI_COMM_WORLD) - 1 - rank);
  check_world_of(reversed);
  {
    // Several at the same time, the communicators freed before their worlds.
    World first = world_from_communicator(odd_or_even);
    World second = world_from_communicator(reversed);
    MPI_Comm_free(&odd_or_even);
    MPI_Comm_free(&reversed);
    World third;
    check_group(second.group());
    check_group(first.group());
    check_group(third.group());
  }
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  CHECK(handler == MPI_ERRORS_ARE_FATAL);  // the caller's, as it was
}

void check_refused_communicators() {
  CHECK_THROWS(UsageError, world_from_communicator(MPI_COMM_NULL), "MPI_COMM_NULL", "remedy");
  if (size_of(MPI_COMM_WORLD) == 1) return;
  const int rank = rank_in(MPI_COMM_WORLD);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm both = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - rank % 2, 7, &both);
  CHECK_THROWS(UsageError, world_from_communicator(both), "inter-communicator", "remedy");
  MPI_Comm_free(&both);
  MPI_Comm_free(&half);
}

void in_another_thread(const std::function<void()>& call) { std::thread(call).join(); }

void check_other_threads_are_refused(World& world, const char* level) {
  ProcessGroup& group = world.group();
  float value = 1;
  in_another_thread([&] {
    CHECK_THROWS(UsageError, group.all_reduce(view_of(value)), level, "rank", "default_pg",
                 "all_reduce", "remedy");
    CHECK_THROWS(UsageError, group.all_reduce_async(view_of(value)), level, "all_reduce");
    CHECK_THROWS(UsageError, group.barrier({.timeout = Timeout::none()}), level, "barrier");
    CHECK_THROWS(UsageError, world.new_group({0}), level);
    bool has_run = false;
    const auto shadow = [&] { Join::shadow_all({group}, [&] { has_run = true; }); };
    CHECK_THROWS(UsageError, shadow(), level, "shadow_all");
    CHECK(!has_run && !group.is_aborted());
    CHECK_THROWS(UsageError, World(), "thread");
  });
  CHECK(value == 1);
  CHECK(group.collective_sequence() == 0);
  Work work = group.all_reduce_async(view_of(value));
  in_another_thread([&] {
    if (!work.is_completed()) CHECK_THROWS(UsageError, work.wait(), level);
  });
  work.wait();
  CHECK(value == static_cast<float>(world.size()));
  check_group(group);
  CHECK_THROWS(UsageError, World({.progress_thread = true}), "progress thread", "remedy");
  CHECK_THROWS(UsageError, World({.thread_level = ThreadLevel::multiple}),
               "thread level multiple is asked for", "MPI was initialised with ", "remedy");
}

void check_other_threads_may_call(World& world) {
  in_another_thread([&] { check_group(world.group()); });
  std::vector<int> everybody;
  for (int rank = 0; rank < world.size(); ++rank) everybody.push_back(rank);
  ProcessGroup first = world.new_group(everybody);
  ProcessGroup second = world.new_group(everybody);
  // At the same time; on other ranks the threads may come in another order.
  const auto use = [](ProcessGroup& group) {
    for (int i = 0; i < 20; ++i) check_group(group);
  };
  std::thread other(use, std::ref(first));
  use(second);
  other.join();
  Work work = world.group().barrier_async();
  in_another_thread([&] { work.wait(); });
  CHECK(work.is_completed());
}

void check_threads(int level) {
  World world;
  if (level <= MPI_THREAD_FUNNELED) {
    const bool single = level == MPI_THREAD_SINGLE;
    check_other_threads_are_refused(world, single ? "MPI_THREAD_SINGLE" : "MPI_THREAD_FUNNELED");
    return;
  }
  check_other_threads_may_call(world);
  if (level == MPI_THREAD_SERIALIZED) {
    CHECK_THROWS(UsageError, World({.progress_thread = true}), "progress thread", "remedy");
    return;
  }
  World driven({.progress_thread = true});
  float value = 1;
  Work work = driven.group().all_reduce_async(view_of(value));
  while (!work.is_completed()) std::this_thread::yield();  // it moves while nobody waits
  CHECK(value == static_cast<float>(driven.size()));
}

void run(const std::string& level) {
  const int granted = initialise(level);
  check_communicators();
  check_refused_communicators();
  check_threads(granted);
  int finalized = -1;
  MPI_Finalized(&finalized);
  CHECK(finalized == 0);  // that is the caller's to do
  CHECK(MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS);
  CHECK(MPI_Finalize() == MPI_SUCCESS);
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_told(argc, argv, hymn::test::run); }
