// A rank that comes to the making of a group, and no further; elastic_test.cpp starts it.
//   making_job dies|stays|shrinks|leaves
// Rank 1 is killed, or sleeps, in the midst of MPI's call. All others get an error, can go on with
// a group of their own, and say so: "rank 0 has gone on". Or it is killed there, or right after it,
// while a group is made of those that are left of another one: they get one without it.
#include <dlfcn.h>

#include <chrono>
#include <csignal>
#include <string_view>
#include <thread>

#include "tests/mpi/check.hpp"

namespace {

enum class Fate { none, dies, stays, leaves } fate = Fate::none;

}  // namespace

// hymn's own call passes here on its way to MPI.
extern "C" int PMPI_Comm_create_group(MPI_Comm communicator, MPI_Group group, int tag,
                                      MPI_Comm* made) {
  if (fate == Fate::dies) std::raise(SIGKILL);
  while (fate == Fate::stays) std::this_thread::sleep_for(std::chrono::seconds(1));
  using Create = int (*)(MPI_Comm, MPI_Group, int, MPI_Comm*);
  static const auto real = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "PMPI_Comm_create_group"));
  const int code = real(communicator, group, tag, made);
  if (fate == Fate::leaves) std::raise(SIGKILL);
  return code;
}

namespace hymn::test {
namespace {

void run(bool dies) {
  World world;
  const auto limit = std::chrono::seconds(dies ? 60 : 2);
  const auto make = [&] { world.new_group({0, 1, 2}, {.init_timeout = limit}); };
  if (world.rank() == 1) {
    fate = dies ? Fate::dies : Fate::stays;
    CHECK_THROWS(TimeoutError, make(), "making the communicator of group 1", "waited 2.");
    world.new_group({0, 2});
    std::printf("rank 1 has gone on\n");
    return;
  }
  const auto began = std::chrono::steady_clock::now();
  if (dies)
    CHECK_THROWS(TimeoutError, make(), "making the communicator of group 1", "in vain: rank(s) 1");
  else
    CHECK_THROWS(TimeoutError, make(), "making the communicator of group 1", "waited 2.");
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
  if (world.rank() == 1) fate = of_first;
  group = group.shrink();
  CHECK(group.size() == 2);
  std::int32_t one = 1;
  group.all_reduce(view_of(one));
  CHECK(one == 2);
  std::printf("rank %d has gone on\n", world.rank());
}

}  // namespace
}  // namespace hymn::test

int main(int, char** argv) {
  const std::string_view what = argv[1];
  if (what == "shrinks" || what == "leaves")
    hymn::test::shrink(what == "leaves" ? Fate::leaves : Fate::dies);
  else
    hymn::test::run(what == "dies");
  return 0;
}
