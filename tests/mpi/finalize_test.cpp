// The application finalizes MPI while things of hymn's are still there: none of them may call MPI
// afterwards, in whatever order they end. MPI ends the process with an error if one does.
//   finalize_test ORDER   letters: F MPI_Finalize, W world, G groups, K works; what is not named is
//                         left to the end of the process. X instead of F: a fault, to see that it
//                         shows.
#include <chrono>
#include <memory>
#include <vector>

#include "tests/mpi/check.hpp"

namespace hymn::test {
namespace {

struct Things {
  std::unique_ptr<World> world;
  std::vector<ProcessGroup> groups;
  std::vector<Work> works;
  float incoming[4] = {7, 7, 7, 7};
  float sum = 1;

  void make() {
    world = std::make_unique<World>();
    std::vector<int> everybody;
    for (int rank = 0; rank < world->size(); ++rank) everybody.push_back(rank);
    groups.push_back(world->group());
    groups.push_back(world->new_group(everybody));
    // What never completes below is waited for no longer than this when its group ends.
    groups.push_back(world->new_group(everybody, {.timeout = std::chrono::milliseconds(200)}));
    works.push_back(groups[1].all_reduce_async(view_of(sum)));
    works.back().wait();
    CHECK(sum == static_cast<float>(world->size()));
    if (world->size() == 1) return;
    // Nobody sends this, and only one rank comes to the barrier: they are in flight until the end.
    const int next = (world->rank() + 1) % world->size();
    works.push_back(groups[2].irecv(BufferView(incoming), next, 5));
    CHECK(!works.back().test());
    if (world->rank() == 0) works.push_back(groups[2].barrier_async());
  }

  /// What is left must refuse every use that would need MPI.
  void check_refusals() {
    float value = 1;
    CHECK_THROWS(UsageError, World(), "finalized", "remedy");
    CHECK_THROWS(UsageError, world_from_communicator(MPI_COMM_WORLD), "finalized");
    for (ProcessGroup& group : groups) {
      CHECK_THROWS(UsageError, group.all_reduce(view_of(value)));
      CHECK_THROWS(UsageError, group.all_reduce_async(view_of(value)));
      CHECK_THROWS(UsageError, group.barrier({.timeout = Timeout::none()}));
    }
    if (world) {
      CHECK_THROWS(UsageError, world->new_group({0}), "finalized");
      CHECK_THROWS(UsageError, world->group().barrier(), "finalized", "remedy", "default_pg");
    }
    for (Work& work : works) {
      if (work.is_completed()) continue;
      CHECK_THROWS(UsageError, work.wait(), "finalized");
      CHECK_THROWS(UsageError, work.wait(std::chrono::seconds(1)), "finalized");
      CHECK_THROWS(UsageError, work.test(), "finalized");
    }
    CHECK(value == 1);
  }
};

// Ends at the end of the process where no letter of the order ends it before.
Things things;

void step(char what) {
  switch (what) {
    case 'F':
      CHECK(MPI_Finalize() == MPI_SUCCESS);
      things.check_refusals();
      break;
    case 'X': {
      int rank = 0;
      MPI_Finalize();
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      break;
    }
    case 'W':
      things.world.reset();
      break;
    case 'G':
      things.groups.clear();
      break;
    case 'K':
      things.works.clear();
      break;
    default:
      fail(__FILE__, __LINE__, "unknown letter");
  }
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  hymn::test::things.make();
  for (const char what : std::string(argv[1])) hymn::test::step(what);
  return 0;
}
