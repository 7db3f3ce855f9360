// What is larger than a staging buffer goes through it piece by piece, over toy GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "base/sanitizers.hpp"
#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/peer_rules.hpp"
#include "tests/unit/toy_gpus.hpp"

namespace hymn::test {
namespace {

using ::testing::EndsWith;
using ::testing::IsEmpty;
using Ints = std::vector<std::int32_t>;

// What fills a staging buffer takes sanitizers long.
constexpr int rank_count = sanitized ? 2 : 3;
constexpr int last = rank_count - 1;

class PeerPieces : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  }
  void run(const std::function<void(World&)>& body) {
    Config config;
    config.path = PathPolicy::parse("cuda_p2p,threads", "HYMN_PATH");
    gpus.run(
        [&](World& world) {
          body(world);
          for (const AlgorithmUse& use : world.group().uses())
            EXPECT_THAT(use.algorithm, EndsWith("_windows"));
          world.group().barrier();
        },
        {}, config);
    EXPECT_THAT(gpus.violations(), IsEmpty());
  }
  ToyGpus gpus{rank_count};
};

/// More than one piece of blocks for every rank, or of one block, and an end that fills no pack.
constexpr std::size_t in_pieces = peer_slot_bytes / sizeof(std::int32_t) + 1001;
constexpr std::size_t block_in_pieces = in_pieces / 2;

/// What rank `from` has for rank `to`, or for everybody.
std::int32_t value(int from, int to, std::size_t i) {
  return from * 1'000'003 + to * 10'007 + static_cast<std::int32_t>(i % 9973);
}
void append(Ints& all, int from, int to, std::size_t count) {
  const std::size_t begin = all.size();
  all.resize(begin + count);
  std::int32_t* const values = all.data() + begin;
  for (std::size_t i = 0; i < count; ++i) values[i] = value(from, to, i);
}
Ints block(int from, int to, std::size_t count) {
  Ints values;
  append(values, from, to, count);
  return values;
}
/// The blocks of one rank for all, or of all ranks for one.
Ints from_one(int from, std::size_t count) {
  Ints all;
  for (int to = 0; to < rank_count; ++to) append(all, from, to, count);
  return all;
}
Ints to_one(int to, std::size_t count) {
  Ints all;
  for (int from = 0; from < rank_count; ++from) append(all, from, to, count);
  return all;
}
Ints sum_for(int to, std::size_t count) {
  Ints sums(count);
  for (int from = 0; from < rank_count; ++from)
    for (std::size_t i = 0; i < count; ++i) sums[i] += value(from, to, i);
  return sums;
}

TEST_F(PeerPieces, AllGather) {
  run([&](World& world) {
    ToyBuffer<std::int32_t> mine(gpus, world.rank(), block(world.rank(), 0, in_pieces));
    ToyBuffer<std::int32_t> all(gpus, world.rank(), Ints(rank_count * in_pieces));
    world.group().all_gather(mine.view(), all.view());
    EXPECT_TRUE(all.values() == to_one(0, in_pieces));
  });
}

TEST_F(PeerPieces, BroadcastAndReduce) {
  run([&](World& world) {
    const bool is_root = world.rank() == 1;
    ToyBuffer<std::int32_t> buffer(gpus, world.rank(), block(world.rank(), 0, in_pieces));
    ToyBuffer<std::int32_t> sum(gpus, world.rank(), Ints(is_root ? in_pieces : 0));
    world.group().reduce(buffer.view(), is_root ? sum.view() : BufferView{}, 1);
    if (is_root) {
      EXPECT_TRUE(sum.values() == sum_for(0, in_pieces));
    }
    world.group().broadcast(buffer.view(), 1);
    EXPECT_TRUE(buffer.values() == block(1, 0, in_pieces));
  });
}

TEST_F(PeerPieces, AllToAll) {
  run([&](World& world) {
    const int me = world.rank();
    ToyBuffer<std::int32_t> in(gpus, me, from_one(me, block_in_pieces));
    ToyBuffer<std::int32_t> out(gpus, me, Ints(rank_count * block_in_pieces));
    world.group().all_to_all(in.view(), out.view());
    EXPECT_TRUE(out.values() == to_one(me, block_in_pieces));
  });
}

TEST_F(PeerPieces, ReduceScatter) {
  run([&](World& world) {
    const int me = world.rank();
    ToyBuffer<std::int32_t> in(gpus, me, from_one(me, block_in_pieces));
    ToyBuffer<std::int32_t> out(gpus, me, Ints(block_in_pieces));
    world.group().reduce_scatter(in.view(), out.view());
    EXPECT_TRUE(out.values() == sum_for(me, block_in_pieces));
  });
}

TEST_F(PeerPieces, GatherAndScatter) {
  run([&](World& world) {
    const int me = world.rank();
    const bool is_root = me == last;
    ToyBuffer<std::int32_t> mine(gpus, me, block(me, 0, in_pieces));
    ToyBuffer<std::int32_t> all(gpus, me, Ints(is_root ? rank_count * in_pieces : 0));
    world.group().gather(mine.view(), is_root ? all.view() : BufferView{}, last);
    if (is_root) {
      EXPECT_TRUE(all.values() == to_one(0, in_pieces));
    }
    ToyBuffer<std::int32_t> blocks(gpus, me, is_root ? from_one(me, block_in_pieces) : Ints());
    ToyBuffer<std::int32_t> part(gpus, me, Ints(block_in_pieces));
    world.group().scatter(is_root ? blocks.view() : BufferView{}, part.view(), last);
    EXPECT_TRUE(part.values() == block(last, me, block_in_pieces));
  });
}

}  // namespace
}  // namespace hymn::test
