// What tests share that spoil a group and look at what is left.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <deque>
#include <functional>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/blocks.hpp"
#include "tests/support/data.hpp"
#include "tests/support/errors.hpp"

namespace hymn::test {

/// Far more than anything takes that happens at once; far less than the limit of operations.
inline constexpr std::chrono::seconds at_once(20);

/// A group of all ranks that a test may ruin; messages between the ranks go through the world.
inline ProcessGroup fresh_group(World& world, const GroupOptions& options = {}) {
  std::vector<int> ranks(ranks_as_size(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  return world.new_group(ranks, options);
}
inline ProcessGroup fresh_group(World& world, const char* name, Timeout timeout = {}) {
  return fresh_group(world, GroupOptions{.description = name, .timeout = timeout});
}

/// What a call that will be given up writes to: MPI may do so afterwards, too.
inline std::span<float> lasting_floats(std::size_t count) {
  static std::mutex mutex;
  static std::deque<std::vector<float>> all;
  const std::lock_guard lock(mutex);
  return all.emplace_back(count);
}

/// Rank 0 lets the others go on; they wait for that.
inline void signal_from_first(World& world) {
  std::int32_t token = 1;
  if (world.rank() != 0) world.group().recv(view_of(token), 0, 77);
  for (int rank = 1; world.rank() == 0 && rank < world.size(); ++rank)
    world.group().send(view_of(token), rank, 77);
}

/// Tells that rank, through the world, that this one has come so far.
inline void send_token(World& world, int destination) {
  const std::int32_t token = 1;
  world.group().send(view_of(token), destination, 78);
}
inline void await_token(World& world, int source) {
  std::int32_t token = 0;
  world.group().recv(view_of(token), source, 78);
}
inline void await_tokens_of_all_others(World& world) {
  for (int rank = 0; rank < world.size(); ++rank)
    if (rank != world.rank()) await_token(world, rank);
}

inline void expect_group_works(ProcessGroup group) {
  std::int32_t one = 1;
  group.all_reduce(view_of(one));
  EXPECT_EQ(one, group.size());
}

inline void expect_world_works(World& world) { expect_group_works(world.group()); }

/// Without moving anything forward.
inline bool is_aborted_within(const ProcessGroup& group, Duration patience) {
  const auto limit = std::chrono::steady_clock::now() + patience;
  while (!group.is_aborted() && std::chrono::steady_clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return group.is_aborted();
}

/// The call must fail, with all of these words, long before any limit; other errors than hymn's
/// are let through. Returns what it threw.
inline Error failure_of(const std::function<void()>& call, Words words = {},
                        std::source_location where = std::source_location::current()) {
  const auto before = std::chrono::steady_clock::now();
  Error caught(ErrorKind::internal, "nothing was thrown");
  try {
    call();
    ADD_FAILURE() << where.file_name() << ":" << where.line() << ": should throw";
  } catch (const Error& error) {
    caught = error;
  }
  const std::string text = caught.what();
  for (const std::string_view word : words)
    EXPECT_NE(text.find(word), std::string::npos)
        << where.file_name() << ":" << where.line() << ": '" << word << "' is missing in: " << text;
  EXPECT_LT(std::chrono::steady_clock::now() - before, at_once)
      << where.file_name() << ":" << where.line();
  return caught;
}

}  // namespace hymn::test
