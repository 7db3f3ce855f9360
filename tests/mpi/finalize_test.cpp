// The application finalizes MPI while things of hymn's are still there: none of them may call MPI
// afterwards, in whatever order they end. MPI ends the process with an error if one does.
//   finalize_test ORDER   letters: F MPI_Finalize, W world, G groups, K works; what is not named is
//                         left to the end of the process. X instead of F: a fault, to see that it
//                         shows.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
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
  bool in_flight = false;

  /// `fails_early`: what never completes fails when MPI is finalized, and not by a limit.
  void make(bool fails_early) {
    world = std::make_unique<World>();
    std::vector<int> everybody;
    for (int rank = 0; rank < world->size(); ++rank) everybody.push_back(rank);
    groups.push_back(world->group());
    groups.push_back(world->new_group(everybody));
    // What never completes below is waited for no longer than this when its group ends.
    groups.push_back(world->new_group(
        everybody,
        {.timeout = fails_early ? std::chrono::seconds(20) : std::chrono::milliseconds(200),
         .init_timeout = std::chrono::seconds(60)}));
    in_flight = fails_early;
    works.push_back(groups[1].all_reduce_async(view_of(sum)));
    works.back().wait();
    CHECK(sum == static_cast<float>(world->size()));
    if (world->size() == 1) return;
    // Nobody sends this, and only one rank comes to the barrier: they are in flight until the end.
    const int next = (world->rank() + 1) % world->size();
    works.push_back(groups[2].irecv(BufferView(incoming), next, 5));
    CHECK(!works.back().test() || works.back().error() != nullptr);  // its limit may have passed
    MPI_Barrier(MPI_COMM_WORLD);  // the limit of what follows gives the group up
    if (world->rank() == 0) works.push_back(groups[2].barrier_async());
    MPI_Barrier(MPI_COMM_WORLD);  // nobody's end comes before another's start
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
    if (!in_flight) return;
    // What was in flight has failed by this, here or by the news of another rank; and that does not
    // take any limit to pass.
    const auto began = std::chrono::steady_clock::now();
    for (std::size_t i = 1; i < works.size(); ++i) {
      CHECK_THROWS(Error, works[i].wait(), "finalized");
      CHECK_THROWS(Error, works[i].wait(std::chrono::seconds(1)), "finalized");
      CHECK(works[i].test() && works[i].error() != nullptr);
    }
    CHECK(std::chrono::steady_clock::now() - began < std::chrono::seconds(15));
    CHECK(value == 1);
  }
};

// What the others only begin when this rank is in MPI_Finalize completes there.
void finalize_early() {
  World world;
  std::vector<std::vector<float>> values(3, std::vector<float>(1'000'000, 1));
  std::vector<Work> works;
  if (world.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
  for (auto& one : values) works.push_back(world.group().all_reduce_async(one));
  CHECK(MPI_Finalize() == MPI_SUCCESS);
  for (Work& work : works) work.wait();
  for (const auto& one : values) CHECK(one.front() == 2 && one.back() == 2);
}

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

void run(const std::string& order) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided);
  if (order == "early") return finalize_early();
  things.make(order.front() == 'F');
  for (const char what : order) step(what);
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) { return hymn::test::run_told(argc, argv, hymn::test::run); }
