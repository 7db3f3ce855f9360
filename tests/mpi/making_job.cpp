// A rank that comes to the making of a group, and no further; elastic_test.cpp starts it.
//   making_job dead|told|dies|stays|shrinks|stops|leaves
// Rank 1 is killed before it calls, or is killed, or sleeps, in the midst of MPI's call. All others
// get an error, can go on with a group of their own, and say so: "rank 0 has gone on". Or it is
// killed there, or right after it, while a group is made of those that are left of another one:
// they get one without it. Or it is stopped when it has begun to shrink: the others name it.
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>

#include "tests/mpi/check.hpp"
#include "tests/support/create_group.hpp"

namespace hymn::test {
namespace {

enum class Fate { dies, stays, leaves };

/// What becomes of this rank in the next MPI_Comm_create_group, or right after it.
void meet(Fate fate) {
  const auto die = [] { std::raise(SIGKILL); };
  const auto stay = [] {
    while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
  };
  if (fate == Fate::leaves)
    create_group().after = die;
  else
    create_group().before = fate == Fate::dies ? std::function<void()>(die) : stay;
}

/// Rank 1 is killed before, and rank 0, whom the others speak with, comes when rank 2 has heard of
/// that by itself.
void run_without() {
  World world;
  world.group().barrier();
  if (world.rank() == 1) std::raise(SIGKILL);
  const auto make = [&] { world.new_group({0, 1, 2}); };
  const auto make_aside = [&] { world.new_group_async({0, 1, 2}).get(); };
  const auto began = std::chrono::steady_clock::now();
  if (world.rank() == 0) MPI_Recv(nullptr, 0, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  CHECK_THROWS(PeerError, make(), "making group 1 of ranks [0, 1, 2]: rank 1 (", ") is dead: ");
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - began;
  std::printf("rank %d has heard of it after %.3f s\n", world.rank(), waited.count());
  if (world.rank() == 2) MPI_Send(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
  CHECK_THROWS(PeerError, make_aside(), "making group 2", "rank 1 (", ") is dead: ");
  world.new_group({0, 2});
  std::printf("rank %d has gone on\n", world.rank());
}

/// Rank 1 is killed; rank 0 knows it, and shrinks a group: rank 2 hears why.
void shrink_for_the_dead() {
  World world;
  ProcessGroup group = world.new_group({0, 1, 2});
  ProcessGroup pair = world.new_group({0, 1});
  world.group().barrier();  // all have made them
  if (world.rank() == 1) std::raise(SIGKILL);
  if (world.rank() == 0)
    CHECK_THROWS(Error, pair.barrier(), "rank 1 (", ") is dead: ");
  else
    while (!group.is_aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (world.rank() == 2)
    CHECK_THROWS(AbortedError, group.barrier(),
                 "rank 0 shrinks the group: a member is gone: rank 1 (", ") is dead: ");
  CHECK(group.shrink().size() == 2);
  std::printf("rank %d has gone on\n", world.rank());
}

void run(bool dies) {
  World world;
  const auto limit = std::chrono::seconds(dies ? 60 : 8);
  const auto make = [&] { world.new_group({0, 1, 2}, {.init_timeout = limit}); };
  if (world.rank() == 1) {
    meet(dies ? Fate::dies : Fate::stays);
    CHECK_THROWS(TimeoutError, make(), "making the communicator of group 1", "waited ");
    world.new_group({0, 2});
    std::printf("rank 1 has gone on\n");
    return;
  }
  const auto began = std::chrono::steady_clock::now();
  if (dies)
    CHECK_THROWS(PeerError, make(), "making the communicator of group 1", "rank 1 (",
                 ") is dead: ");
  else
    CHECK_THROWS(TimeoutError, make(), "making the communicator of group 1", "waited ");
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(20));
  ProcessGroup group = world.new_group({0, 2});
  std::int32_t one = 1;
  group.all_reduce(view_of(one));
  CHECK(one == 2);
  std::printf("rank %d has gone on\n", world.rank());
}

void shrink(Fate of_first) {
  World world;
  ProcessGroup group = world.new_group({0, 1, 2});
  if (world.rank() == 1) meet(of_first);
  group = group.shrink();
  CHECK(group.size() == 2);
  std::int32_t one = 1;
  group.all_reduce(view_of(one));
  CHECK(one == 2);
  std::printf("rank %d has gone on\n", world.rank());
}

/// Rank 1 is stopped in shrink(), before it has told the others that it is there.
void shrink_with_one_stopped() {
  World world;
  ProcessGroup group = world.new_group({0, 1, 2}, {.init_timeout = std::chrono::seconds(8)});
  std::int32_t one = 1;
  Work work;
  if (world.rank() == 1) {
    group.on_completion([](const CompletionInfo&) { std::raise(SIGSTOP); });
    work = group.all_reduce_async(view_of(one));
  }
  // Only now: who shrinks gives the group up, and rank 1 could not begin in it any more.
  std::int32_t pid = ::getpid();
  world.group().broadcast(view_of(pid), 1);
  const auto shrink = [&] { group.shrink(); };
  CHECK_THROWS(TimeoutError, shrink(), "not all members that are left have called shrink",
               "missing: rank 1 (", "is stopped");
  // Rank 2 must have been told by then, too.
  if (world.rank() == 2) MPI_Send(nullptr, 0, MPI_INT, 0, 0, MPI_COMM_WORLD);
  if (world.rank() == 0) MPI_Recv(nullptr, 0, MPI_INT, 2, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (world.rank() == 0) ::kill(pid, SIGKILL);
  CHECK(group.shrink().size() == 2);
  std::printf("rank %d has gone on\n", world.rank());
}

}  // namespace
}  // namespace hymn::test

int main(int, char** argv) {
  const std::string_view what = argv[1];
  if (what == "dead")
    hymn::test::run_without();
  else if (what == "told")
    hymn::test::shrink_for_the_dead();
  else if (what == "stops")
    hymn::test::shrink_with_one_stopped();
  else if (what == "shrinks" || what == "leaves")
    hymn::test::shrink(what == "leaves" ? hymn::test::Fate::leaves : hymn::test::Fate::dies);
  else
    hymn::test::run(what == "dies");
  return 0;
}
