// Groups on the GPUs that they name, on real ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu/device_memory.hpp"
#include "gpu/gpu_functions.hpp"
#include "tests/gpu/real_gpu.hpp"
#include "topology/gpu_probe.hpp"

namespace hymn::test {
namespace {

using Floats = std::vector<float>;

/// Floats in the memory of any GPU.
class FloatsOn {
 public:
  FloatsOn(int gpu, const Floats& values)
      : count_(values.size()),
        memory_(std::make_shared<GpuDevice>(loaded_gpu_functions().cuda, gpu),
                count_ * sizeof(float)) {
    memory_.write(values.data(), memory_.bytes());
  }
  BufferView view() const { return {memory_.data(), count_, DataType::float32}; }
  Floats values() const {
    Floats found(count_);
    memory_.read(found.data(), memory_.bytes());
    return found;
  }

 private:
  std::size_t count_;
  DeviceMemory memory_;
};

std::size_t count_gpus() { return gpus_in_driver(loaded_gpu_functions()).size(); }

TEST(GpuSeveral, TheOwnOneMayBeNamed) {
  run_ranks(1, [](World& world) {
    ProcessGroup group = world.new_group({0}, {.path = "nccl", .gpu = world.gpu()});
    FloatsOn values(world.gpu(), {3.0f});
    group.all_reduce(values.view(), ReduceOp::premul_sum(2.0));
    EXPECT_EQ(values.values(), Floats{6.0f});
    const auto none = static_cast<int>(count_gpus());
    try {
      world.new_group({0}, {.gpu = none});
      ADD_FAILURE() << "GPU " << none << " is there";
    } catch (const UsageError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr("GroupOptions::gpu is " + std::to_string(none)));
    }
  });
}

/// Both are in flight at once; each is on a GPU of its own.
void use_two(const std::string& path, int ranks) {
  if (count_gpus() < 2) GTEST_SKIP() << "one GPU is here: groups on a second one are not shown";
  run_ranks(ranks, [&](World& world) {
    std::vector<int> all;
    for (int rank = 0; rank < ranks; ++rank) all.push_back(rank);
    constexpr std::size_t count = std::size_t{1} << 20;
    std::vector<ProcessGroup> groups;
    std::vector<std::unique_ptr<FloatsOn>> values;
    std::vector<Work> works;
    for (int gpu = 0; gpu < 2; ++gpu) {
      groups.push_back(world.new_group(all, {.path = path, .gpu = gpu}));
      values.push_back(std::make_unique<FloatsOn>(
          gpu, Floats(count, static_cast<float>(1 + world.rank() + gpu))));
    }
    for (const std::size_t gpu : {1u, 0u}) {
      const BufferView view = values[gpu]->view();
      works.push_back(groups[gpu].all_reduce_async(view, ReduceOp::premul_sum(2.0)));
    }
    for (Work& work : works) work.wait();
    for (std::size_t gpu = 0; gpu < 2; ++gpu) {
      const float each = 2.0f * (1.0f + static_cast<float>(gpu));
      const auto members = static_cast<float>(ranks);
      EXPECT_EQ(values[gpu]->values(), Floats(count, members * each + members * (members - 1)));
    }
    EXPECT_THROW(groups[0].all_reduce(values[1]->view()), UsageError);
    world.group().barrier();
  });
}

TEST(GpuSeveral, OneRankUsesTwoByNccl) { use_two("nccl", 1); }
TEST(GpuSeveral, TwoRanksUseTwoByStaging) { use_two("^nccl", 2); }

}  // namespace
}  // namespace hymn::test
