// A job that makes collectives for ever, until one of its ranks is killed; kill_test.cpp starts it
// and looks at how it ends, and at what it leaves.
//   killed_job FOLDER SEED VICTIM MICROSECONDS early|late mix|join|shadow
// The rank VICTIM ends by SIGKILL so long after MPI has come up (early: also while the world and
// its groups are made), or after the groups were made (late). Each of the others notes in FOLDER
// what it heard of that. They mix all collectives, where three seeds of four use shared memory
// alone, if it is there; or they are in a join, in which rank 0 has run out of input.
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <thread>

#include "tests/fault/notes.hpp"
#include "tests/mpi/check.hpp"
#include "tests/support/mixed_run.hpp"
#include "tests/support/roads.hpp"

namespace hymn::test {
namespace {

std::string path_for(World& world, std::uint64_t seed) {
  if (seed % 4 == 0) return "";
  for (const Road& road : roads_of(world.group(), OpType::all_reduce))
    if (road.path == "shm") return road.path;
  return "";
}

void die_after(std::chrono::microseconds delay, const Notes& notes) {
  std::thread([delay, notes] {
    std::this_thread::sleep_for(delay);
    notes.write(death_note(0), clock_ms());
    std::raise(SIGKILL);
  }).detach();
}

/// `ready` is called when all groups are there, on all ranks.
void mix_for_ever(World& world, std::uint64_t seed, const std::function<void()>& ready) {
  // It stays: where it fails, operations are in flight for longer than this function runs.
  auto* run = new MixedRun(world, seed, path_for(world, seed));
  world.group().barrier();
  ready();
  while (true) {
    run->run(30);
    world.group().barrier();  // else not every rank would need every other
  }
}

class Summer : public Joinable {
 public:
  explicit Summer(ProcessGroup group) : group_(std::move(group)) {}
  void step(std::int32_t value) {
    Join::notify(*this);
    group_.all_reduce(view_of(value));
  }
  std::unique_ptr<JoinHook> join_hook(const JoinArguments&) override {
    struct Hook : JoinHook {
      explicit Hook(Summer& summer) : owner(summer) {}
      void main_hook() override { owner.step(0); }
      Summer& owner;
    };
    return std::make_unique<Hook>(*this);
  }
  ProcessGroup join_group() const override { return group_; }

 private:
  ProcessGroup group_;
};

/// Ends only for rank 0, which has no input.
void join_for_ever(World& world, bool has_hooks, const std::function<void()>& ready) {
  world.group().barrier();
  ready();
  Summer summer(world.group());
  const auto body = [&] {
    while (world.rank() != 0) summer.step(1);
  };
  if (has_hooks)
    Join({&summer}).run(body);
  else
    Join::shadow_all({world.group()}, body);
}

void note_error(const hymn::Error& error, int rank, const Notes& notes) {
  notes.write(report_note(0, rank), {{"kind", to_string(error.kind())},
                                     {"text", error.what()},
                                     {"missing", error.context().missing},
                                     {"failures", ::testing::Test::HasFailure()},
                                     {"at_ms", clock_ms()}});
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  using namespace hymn::test;
  ::testing::InitGoogleTest(&argc, argv);
  if (argc != 7) return 2;
  int level = 0;
  int rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  const Notes notes(argv[1]);
  const bool is_victim = rank == std::atoi(argv[3]);
  const std::chrono::microseconds delay(std::atoi(argv[4]));
  const bool early = std::string_view(argv[5]) == "early";
  const std::string_view activity = argv[6];
  if (is_victim && early) die_after(delay, notes);
  try {
    // News of a death end what is in flight long before this limit. Before there is a world there
    // are no news.
    hymn::World world(
        {.timeout = std::chrono::seconds(30), .init_timeout = std::chrono::seconds(3)});
    try {
      const auto ready = [&] {
        if (is_victim && !early) die_after(delay, notes);
      };
      if (activity == "mix")
        mix_for_ever(world, std::strtoull(argv[2], nullptr, 10), ready);
      else
        join_for_ever(world, activity == "join", ready);
    } catch (const hymn::Error& error) {
      note_error(error, rank, notes);
      throw;
    }
  } catch (const hymn::Error& error) {
    // The others may have given up on a rank that is only late: it waits for its end.
    while (is_victim) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (!notes.has(report_note(0, rank))) note_error(error, rank, notes);
  }
  return 0;
}
