// A bit of everything that a world can do, with exact results.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "hymn/hymn.hpp"

namespace hymn::test {

inline std::size_t as_size(int number) { return static_cast<std::size_t>(number); }

/// Throws where a rank of a forked process could not use gtest's checks.
inline void require(bool right, const std::string& what) {
  if (!right) throw std::runtime_error(what + " went wrong");
}

inline std::vector<std::int32_t> numbers(std::size_t count, int first) {
  std::vector<std::int32_t> made(count);
  for (std::size_t i = 0; i < count; ++i) made[i] = first + static_cast<int>(i);
  return made;
}

inline void try_reductions(ProcessGroup& group, std::size_t count) {
  const int ranks = group.size();
  std::vector<std::int64_t> sum(count, group.rank() + 1);
  group.all_reduce(sum);
  require(sum == std::vector<std::int64_t>(count, ranks * (ranks + 1) / 2), "all_reduce");
  std::vector<float16> halves(count, float16(static_cast<float>(group.rank() + 1)));
  group.all_reduce(halves, ReduceOp::max);
  for (const float16& half : halves)
    require(static_cast<float>(half) == static_cast<float>(ranks), "all_reduce of halves");
  const int root = group.global_rank(ranks - 1);
  std::vector<double> product(count, 2.0);
  std::vector<double> result(count, -1.0);
  group.reduce(product, result, root, ReduceOp::product);
  const double expected = group.rank() == ranks - 1 ? static_cast<double>(1 << ranks) : -1.0;
  require(result == std::vector<double>(count, expected), "reduce");
  std::vector<std::int32_t> share(count);
  const auto whole = numbers(count * as_size(ranks), 0);
  group.reduce_scatter(whole, share);
  for (std::size_t i = 0; i < count; ++i)
    require(share[i] == ranks * whole[as_size(group.rank()) * count + i], "reduce_scatter");
}

inline void try_moves(ProcessGroup& group, std::size_t count) {
  const int root = group.global_rank(0);
  const int base = static_cast<int>(count);
  const auto mine = numbers(count, group.rank() * base);
  const auto all = numbers(count * as_size(group.size()), 0);
  std::vector<std::int32_t> buffer = group.rank() == 0 ? numbers(count, 5) : mine;
  group.broadcast(buffer, root);
  require(buffer == numbers(count, 5), "broadcast");
  std::vector<std::int32_t> gathered(all.size());
  group.all_gather(mine, gathered);
  require(gathered == all, "all_gather");
  gathered.assign(all.size(), -1);
  group.gather(mine, gathered, root);
  require(group.rank() != 0 || gathered == all, "gather");
  group.scatter(all, buffer, root);
  require(buffer == mine, "scatter");
  std::vector<std::int32_t> to_all(all.size(), group.rank());
  group.all_to_all(to_all, gathered);
  for (std::size_t i = 0; i < all.size(); ++i)
    require(gathered[i] == static_cast<int>(i / count), "all_to_all");
}

inline void try_messages(World& world) {
  ProcessGroup& group = world.group();
  if (world.rank() == 0) {
    std::vector<int> heard(as_size(world.size()), 0);
    for (int i = 1; i < world.size(); ++i) {
      std::int32_t value = 0;
      const RecvStatus status = group.recv(view_of(value), any_source, 3);
      require(value == status.source * 11 && status.tag == 3 && status.count == 1, "any_source");
      ++heard[as_size(status.source)];
    }
    require(std::count(heard.begin() + 1, heard.end(), 1) == world.size() - 1, "any_source");
  } else {
    const std::int32_t value = world.rank() * 11;
    group.send(view_of(value), 0, 3);
  }
  // A ring of asynchronous messages, out of the order of their tags.
  const int next = (world.rank() + 1) % world.size();
  const int before = (world.rank() + world.size() - 1) % world.size();
  if (world.size() == 1) return;
  const std::vector<float> first(1000, 1.0f);
  const std::vector<float> second(1000, 2.0f);
  std::vector<float> in_first(1000);
  std::vector<float> in_second(1000);
  const std::vector<P2POp> operations = {P2POp::send(first, next, 1), P2POp::send(second, next, 2),
                                         P2POp::recv(in_second, before, 2),
                                         P2POp::recv(in_first, before, 1)};
  group.batch_isend_irecv(operations).wait();
  require(in_first == first && in_second == second, "batch");
}

inline void try_pairs(World& world) {
  for (int low = 0; low < world.size(); ++low) {
    for (int high = low + 1; high < world.size(); ++high) {
      if (world.rank() != low && world.rank() != high) continue;
      ProcessGroup pair = world.new_group({high, low}, {.local_sync = true});
      try_reductions(pair, 7);
    }
  }
}

inline void exercise(World& world) {
  ProcessGroup& group = world.group();
  for (const std::size_t count : {1, 63, 20'000}) {
    try_reductions(group, count);
    try_moves(group, count);
  }
  try_messages(world);
  std::vector<int> some;
  for (int rank = 0; rank < world.size(); rank += 2) some.push_back(rank);
  ProcessGroup even = world.new_group(some);
  if (even.is_member()) {
    try_reductions(even, 7);
    try_moves(even, 7);
  }
  try_pairs(world);
  std::vector<float> values(500, 1.0f);
  Work work = group.all_reduce_async(values);
  group.barrier();
  work.wait();
  require(values[499] == static_cast<float>(world.size()), "all_reduce_async");
}

}  // namespace hymn::test
