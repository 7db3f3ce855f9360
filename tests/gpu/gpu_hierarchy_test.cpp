// all_reduce over several hosts on a real GPU: ranks that are threads share it, and pretend to be
// on two hosts. NCCL refuses ranks that share a GPU, so shares cross through memory of the host.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <list>
#include <memory>
#include <vector>

#include "collectives/cuda/kernel_image.hpp"
#include "hymn/error.hpp"
#include "runtime/world/thread_world.hpp"
#include "tests/gpu/real_gpu.hpp"
#include "tests/support/all_are.hpp"
#include "topology/read_machine.hpp"

namespace hymn::test {
namespace {

std::vector<PretendedRank> on_two_hosts(int ranks_each) {
  const auto machine = std::make_shared<const Machine>(read_this_machine());
  std::vector<PretendedRank> ranks;
  for (const char* const host : {"first", "second"})
    for (int i = 0; i < ranks_each; ++i) {
      PretendedRank& rank = ranks.emplace_back();
      rank = {.host = host, .machine = machine, .cpus = machine->cpus};
      rank.config.gpu = "0";
      rank.config.path = PathPolicy::parse("cuda_p2p,staged,threads,exchange", "the test");
      rank.config.algo = "all_reduce_hierarchical_staged";
    }
  return ranks;
}

TEST(GpuHierarchyThroughTheHost, SumsAreRightAtAnySize) {
  if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  run_pretended_ranks(on_two_hosts(2), [](World& world) {
    // To allocate and to free memory may wait for kernels that wait for this rank.
    std::list<RealBuffer<float>> buffers;
    for (const std::size_t count : {1, 3, 1024, 65537, (4 << 18) + 1, 1 << 21})
      buffers.emplace_back(std::vector<float>(count, static_cast<float>(world.rank() + 1)));
    world.group().barrier();
    for (const RealBuffer<float>& buffer : buffers) {
      world.group().all_reduce(buffer.view(), ReduceOp::sum, {.timeout = std::chrono::seconds(30)});
      EXPECT_TRUE(all_are(buffer.values(), 10.0F)) << buffer.view().count << " elements";
    }
    std::uint64_t carried = 0;
    for (const AlgorithmUse& use : world.group().uses())
      if (use.path == "cuda_p2p") carried += use.count;
    EXPECT_EQ(carried, buffers.size());
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
