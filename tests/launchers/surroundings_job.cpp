// Uses a world in all ways, wherever it is started, and says what became of shared memory:
// "shm: used by all_reduce_two_shot" or "shm: none: WHY". Status 1: wrong values.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "tests/random/player.hpp"

namespace hymn::test {
namespace {

void check_call(ProcessGroup& group, const CallPlan& plan) {
  const KnownCall call(group, plan);
  group.run(call.request());
  call.check();
}

/// What `explain` tells of shared memory for calls from a few bytes to many, once each.
std::set<std::string> told_of_shared_memory(const ProcessGroup& group) {
  std::set<std::string> told;
  for (const std::size_t count : {1u, 1000u, 100000u, 3000000u}) {
    const KnownCall call(group, {.count = count});
    const Explanation why = group.explain(call.request());
    if (why.path == "shm") told.insert("used by " + why.algorithm);
    for (const Candidate& candidate : why.candidates)
      if (candidate.path == "shm" && !candidate.can_run) told.insert("none: " + candidate.reason);
  }
  return told;
}

void use(World& world) {
  ProcessGroup& group = world.group();
  for (const std::size_t count : {1u, 1000u, 100000u, 3000000u})
    for (const bool in_place : {false, true})
      check_call(group, {.count = count, .in_place = in_place});
  check_call(group, {.type = OpType::all_to_all, .count = 50000});
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    const Script script = Script::draw(seed, {.ranks = world.size(), .steps = 45});
    World* const worlds[] = {&world};
    // Connections of hymn's own need two descriptors for each other rank, and fail without.
    Player player(worlds, script, {.without = "tcp", .makes_in_flight = false});
    player.play();
    player.end();
  }
  if (world.rank() == 0)
    for (const std::string& text : told_of_shared_memory(group))
      std::printf("shm: %s\n", text.c_str());
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  try {
    hymn::World world;
    hymn::test::use(world);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "surroundings_job: %s\n", error.what());
    std::fflush(nullptr);
    std::_Exit(1);
  }
  return ::testing::Test::HasFailure() ? 1 : 0;
}
