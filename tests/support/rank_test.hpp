// Tests whose body runs on every rank of a world, whatever the ranks are: threads_main.cpp runs
// them over threads, mpi_main.cpp over the processes of an mpirun job.
//
//   RANK_TEST(AllReduce, Sums) { … uses `world` … }
//
// Every body gets a fresh world. Bodies should check with EXPECT_… rather than ASSERT_…: a rank
// that leaves early lets its peers wait until their timeout.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <vector>

#include "hymn/hymn.hpp"

namespace hymn::test {

/// Runs `body` on every rank, each with its own new World, and returns when all have ended. Over
/// threads it does so for several numbers of ranks, one after the other.
void on_ranks(const std::function<void(World&)>& body, const WorldOptions& options = {});

/// Whether all ranks live in this process.
bool ranks_are_threads();

/// Whether a thread that the test starts may call hymn while other threads do so, too.
bool any_thread_may_call();

/// False, and the test is marked as skipped where it will not run with more ranks.
bool enough_ranks(const World& world, int ranks);

/// The ranks of all.
inline std::vector<int> everybody(const World& world) {
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace hymn::test

#define RANK_TEST(suite, name)                                  \
  static void suite##_##name(::hymn::World& world);             \
  TEST(suite, name) { ::hymn::test::on_ranks(suite##_##name); } \
  static void suite##_##name([[maybe_unused]] ::hymn::World& world)

/// Ends the body on all ranks when the world is too small for it.
#define NEEDS_RANKS(ranks) \
  if (!::hymn::test::enough_ranks(world, ranks)) return
