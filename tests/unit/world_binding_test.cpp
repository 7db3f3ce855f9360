// Which threads a world binds, and where: with the threads of this process on its real CPUs.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include "base/log.hpp"
#include "p2p/threads/thread_hub.hpp"
#include "runtime/world/world_state.hpp"
#include "topology/affinity.hpp"
#include "topology/core_use.hpp"

namespace hymn::test {
namespace {

/// Makes a world of ranks that are threads, each bound to `start` first, and calls `check` in each.
template <class Check>
void on_bound_ranks(int ranks, const CpuSet& start, const Config& config, Check check) {
  const auto hub = std::make_shared<ThreadHub>(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      ASSERT_TRUE(bind_this_thread(start));
      detail::WorldParts parts(config);
      parts.exchange = std::make_shared<ThreadExchange>(hub, rank);
      World world(detail::WorldState::make(std::move(parts)));
      check(world);
      world.group().barrier();
    });
  for (std::thread& thread : threads) thread.join();
}

/// The CPUs of the threads of this process that have this name.
std::vector<CpuSet> cpus_of_threads(const std::string& name) {
  std::vector<CpuSet> found;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string comm;
    std::getline(std::ifstream(task.path() / "comm"), comm);
    if (comm != name) continue;
    std::ifstream status(task.path() / "status");
    const std::string key = "Cpus_allowed_list:\t";
    for (std::string line; std::getline(status, line);)
      if (line.starts_with(key)) found.push_back(*CpuSet::parse(line.substr(key.size())));
  }
  return found;
}

/// Until the thread has run so far as to name and bind itself.
std::vector<CpuSet> await_threads(const std::string& name, std::size_t count,
                                  const CpuSet& not_yet) {
  for (int i = 0; i < 10000; ++i) {
    const auto found = cpus_of_threads(name);
    if (found.size() == count && (count == 0 || found[0] != not_yet)) return found;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return cpus_of_threads(name);
}

TEST(WorldBinding, LeavesTheApplicationAloneUnlessAsked) {
  const CpuSet all = CpuSet::of_this_thread();
  Config config;
  config.progress_thread = true;
  on_bound_ranks(2, all, config, [&](World& world) {
    EXPECT_EQ(CpuSet::of_this_thread(), all);
    std::vector<float> values(1000, 1.0f);
    world.group().all_reduce_async(values).wait();
    EXPECT_EQ(CpuSet::of_this_thread(), all);
  });
  EXPECT_EQ(CpuSet::of_this_thread(), all);
}

TEST(WorldBinding, BindsRanksToCoresOfTheirOwn) {
  const CpuSet all = CpuSet::of_this_thread();
  Config config;
  config.bind = BindTo::core;
  std::mutex mutex;
  std::vector<CpuSet> bound;
  int cores = 0;
  on_bound_ranks(2, all, config, [&](World& world) {
    const JobMap& map = detail::WorldState::of(world).job_map();
    std::lock_guard lock(mutex);
    bound.push_back(CpuSet::of_this_thread());
    cores = cores_of(map.machine(), all).count();
    EXPECT_EQ(bound.back(), map.place().cpus);
    EXPECT_EQ(cores_of(map.machine(), bound.back()).count(), 1);
    EXPECT_TRUE(all.includes(bound.back()));
  });
  ASSERT_EQ(bound.size(), 2u);
  EXPECT_EQ(bound[0].intersects(bound[1]), cores < 2) << cores << " cores";
  EXPECT_EQ(CpuSet::of_this_thread(), all) << "the test's own thread is none of hymn's business";
}

TEST(WorldBinding, KeepsWhatTheLauncherHasBoundNarrower) {
  CpuSet one;
  one.add(CpuSet::of_this_thread().first());
  Config config;
  config.bind = BindTo::package;
  config.log_level = LogLevel::info;
  std::mutex mutex;
  std::string said;
  LogSink before = set_log_sink([&](LogLevel, int, std::string_view text) {
    std::lock_guard lock(mutex);
    said += text;
  });
  on_bound_ranks(1, one, config, [&](World&) { EXPECT_EQ(CpuSet::of_this_thread(), one); });
  set_log_sink(std::move(before));
  EXPECT_NE(said.find("HYMN_BIND=package"), std::string::npos) << said;
  EXPECT_NE(said.find("already"), std::string::npos) << said;
}

TEST(WorldBinding, TheProgressThreadStaysOffTheCoreOfTheApplication) {
  const CpuSet all = CpuSet::of_this_thread();
  Config config;
  config.bind = BindTo::core;
  config.progress_thread = true;
  on_bound_ranks(1, all, config, [&](World& world) {
    const Machine& machine = detail::WorldState::of(world).job_map().machine();
    const CpuSet own = CpuSet::of_this_thread();
    const bool has_more = cores_of(machine, all).count() > 1;
    const auto helpers = await_threads("hymn-progress", 1, has_more ? own : CpuSet());
    ASSERT_EQ(helpers.size(), 1u);
    EXPECT_TRUE(all.includes(helpers[0]));
    EXPECT_EQ(helpers[0].intersects(own), !has_more) << helpers[0].to_string();
  });
  // A thread that was joined may be listed a little longer.
  EXPECT_TRUE(await_threads("hymn-progress", 0, CpuSet()).empty()) << "it ends with its world";
}

TEST(WorldBinding, TheProgressThreadNeverLeavesTheMaskOfItsRank) {
  CpuSet one;
  one.add(CpuSet::of_this_thread().first());
  Config config;
  config.progress_thread = true;
  on_bound_ranks(1, one, config, [&](World&) {
    const auto helpers = await_threads("hymn-progress", 1, CpuSet());
    ASSERT_EQ(helpers.size(), 1u);
    EXPECT_EQ(helpers[0], one);
  });
}

}  // namespace
}  // namespace hymn::test
