// Every collective through the real NCCL, with one rank for each communicator; and two ranks on one
// GPU, which are staged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

#include "collectives/cuda/kernel_image.hpp"
#include "gpu/memory_query.hpp"
#include "tests/gpu/real_gpu.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

template <class T>
void reduce_alone(ProcessGroup& group) {
  SCOPED_TRACE(std::string(to_string(data_type_of<T>)));
  const std::vector<T> values = {T(1), T(2), T(3), T(4), T(5)};
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::product}) {
    RealBuffer<T> in(values);
    RealBuffer<T> out(std::vector<T>(values.size(), T(0)));
    group.all_reduce(in.view(), out.view(), op);
    EXPECT_EQ(out.values(), values);
  }
}

TEST(GpuCollectives, AllReduceOfAllTypes) {
  alone([](ProcessGroup& group) {
    reduce_alone<std::int8_t>(group);
    reduce_alone<std::uint8_t>(group);
    reduce_alone<std::int32_t>(group);
    reduce_alone<std::uint32_t>(group);
    reduce_alone<std::int64_t>(group);
    reduce_alone<std::uint64_t>(group);
    reduce_alone<float>(group);
    reduce_alone<double>(group);
    RealBuffer<float> scaled({1.0f, 2.0f});
    group.all_reduce(scaled.view(), ReduceOp::premul_sum(3.0));
    EXPECT_EQ(scaled.values(), (std::vector<float>{3.0f, 6.0f}));
    RealBuffer<float> average({1.0f, 2.0f});
    group.all_reduce(average.view(), ReduceOp::avg);
    EXPECT_EQ(average.values(), (std::vector<float>{1.0f, 2.0f}));
  });
}

// One rank adds nothing, so that each kernel's rounding is seen alone.
TEST(GpuCollectives, HalvesAreReducedInFloat32) {
  if (cuda::kernel_image().empty()) GTEST_SKIP() << "hymn was built without nvcc";
  run_ranks(1, [](World& world) {
    ProcessGroup group =
        world.new_group({0}, {.path = "nccl", .nccl = {.reduce_in_float32 = true}});
    std::vector<bfloat16> values;
    std::vector<bfloat16> scaled;
    for (int i = 0; i < 100003; ++i) {
      values.emplace_back(static_cast<float>(i % 251) * 0.5f);
      scaled.emplace_back(static_cast<float>(values.back()) * 0.3f);
    }
    RealBuffer<bfloat16> in(values);
    RealBuffer<bfloat16> out(std::vector<bfloat16>(values.size()));
    Work work = group.all_reduce_async(in.view(), out.view());
    EXPECT_EQ(work.algorithm(), "all_reduce_float32");
    work.wait();
    EXPECT_EQ(out.values(), values);
    group.reduce_scatter(in.view(), out.view(), ReduceOp::premul_sum(0.3));
    EXPECT_EQ(out.values(), scaled);
    group.reduce(in.view(), 0, ReduceOp::avg);
    EXPECT_EQ(in.values(), values);
    const RealStream stream;
    group.all_reduce(out.view(), ReduceOp::product, {.stream = stream.get()});
    stream.synchronize();
    EXPECT_EQ(out.values(), scaled);
    RealBuffer<float16> half({float16(1.5f), float16(-0.0f), float16(65504.0f)});
    group.all_reduce(half.view());
    EXPECT_EQ(half.values(),
              (std::vector<float16>{float16(1.5f), float16(-0.0f), float16(65504.0f)}));
  });
}

TEST(GpuCollectives, AllOthers) {
  alone([](ProcessGroup& group) {
    const std::vector<std::int32_t> values = {7, 8, 9};
    const std::vector<std::int32_t> nothing(3, 0);
    const auto moved = [&](const auto& act) {
      RealBuffer<std::int32_t> in(values);
      RealBuffer<std::int32_t> out(nothing);
      act(in.view(), out.view());
      return out.values();
    };
    RealBuffer<std::int32_t> cast(values);
    group.broadcast(cast.view(), 0);
    EXPECT_EQ(cast.values(), values);
    EXPECT_EQ(moved([&](auto in, auto out) { group.reduce(in, out, 0); }), values);
    EXPECT_EQ(moved([&](auto in, auto out) { group.gather(in, out, 0); }), values);
    EXPECT_EQ(moved([&](auto in, auto out) { group.scatter(in, out, 0); }), values);
    EXPECT_EQ(moved([&](auto in, auto out) { group.all_gather(in, out); }), values);
    EXPECT_EQ(moved([&](auto in, auto out) { group.reduce_scatter(in, out); }), values);
    EXPECT_EQ(moved([&](auto in, auto out) { group.all_to_all(in, out); }), values);
  });
}

TEST(GpuCollectives, EagerOnesAndSettings) {
  run_ranks(1, [](World& world) {
    ProcessGroup group = world.new_group(
        {0}, {.path = "nccl", .nccl = {.init = NcclInit::eager, .min_ctas = 1, .max_ctas = 4}});
    RealBuffer<float> values({1.0f});
    group.all_reduce(values.view());
    EXPECT_EQ(values.values(), std::vector<float>{1.0f});
    RealBuffer<float> more({2.0f});
    world.group().all_reduce(more.view());
    ProcessGroup split = world.new_group({0}, {.path = "nccl"});
    split.all_reduce(more.view());
    EXPECT_EQ(world.group().comm_split_count(), 1u);
  });
}

TEST(GpuCollectives, RanksThatShareAGpuAreStaged) {
  run_ranks(2, [](World& world) {
    RealBuffer<std::int32_t> values({world.rank() + 1, 10});
    const Explanation told =
        world.group().explain(Request::all_reduce(values.view(), values.view()));
    EXPECT_EQ(told.path, "staged");
    world.group().all_reduce(values.view());
    EXPECT_EQ(values.values(), (std::vector<std::int32_t>{3, 20}));
  });
}

TEST(GpuCollectives, MemoryIsKnownWithoutAContext) {
  RealBuffer<float> values({1.0f});
  MemoryAt found;
  std::thread([&] { found = memory_query()->at(values.view().data); }).join();
  EXPECT_EQ(found.kind, MemoryKind::device);
  EXPECT_EQ(found.gpu, 0);
  EXPECT_GE(found.bytes, sizeof(float));
}

}  // namespace
}  // namespace hymn::test
