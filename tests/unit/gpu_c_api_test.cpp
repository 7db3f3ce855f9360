// What the C API has for GPUs, on doubles of the driver and of NCCL.
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "hymn/hymn_buffer.h"
#include "hymn/hymn_coalesced.h"
#include "runtime/c_api/c_api.hpp"
#include "runtime/group/group_state.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

class GpuCApi : public ToyGpuTest {};

hymnCollectiveCall_t in_place(Buffer& buffer, std::size_t count = 1) {
  return {buffer.data(), buffer.data(), count, hymnInt32, hymnSum, 0};
}

TEST_F(GpuCApi, CoalescedCallsAreOneGroupOfNccl) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    hymnGroup group{world.group()};
    Buffer a(gpus, me, {me + 1});
    Buffer b(gpus, me, {10, 20});
    const std::array calls{in_place(a), in_place(b, 2)};
    EXPECT_EQ(hymnCoalesced(hymnCollectiveAllReduce, calls.data(), 2, &group, nullptr),
              hymnSuccess);
    EXPECT_EQ(a.values(), Ints{3});
    EXPECT_EQ(b.values(), (Ints{20, 40}));
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("group"), 2) << "one for each rank";
  EXPECT_EQ(gpus.count("all_reduce"), 4);
}

TEST_F(GpuCApi, CoalescedCallsComeInTheOrderOfAStream) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    hymnGroup group{world.group()};
    void* const stream = gpus.make_stream(me);
    Buffer a(gpus, me, {1});
    Buffer b(gpus, me, {2});
    const std::array calls{in_place(a), in_place(b)};
    // The communicator is made at the first use.
    world.group().all_reduce(a.view());
    gpus.enqueue(stream, [&] { *a.data() = 5; });
    EXPECT_EQ(hymnCoalesced(hymnCollectiveAllReduce, calls.data(), 2, &group, stream), hymnSuccess);
    EXPECT_TRUE(gpus.synchronize(stream));
    EXPECT_EQ(a.values(), Ints{10});
    EXPECT_EQ(b.values(), Ints{4});
    hymnWork_t work = nullptr;
    EXPECT_EQ(hymnICoalesced(hymnCollectiveAllReduce, calls.data(), 2, &group, stream, &work),
              hymnSuccess);
    EXPECT_EQ(hymnWorkWait(work), hymnSuccess);
    EXPECT_EQ(hymnWorkFree(work), hymnSuccess);
    EXPECT_EQ(b.values(), Ints{8});
    world.group().barrier();
  });
}

TEST_F(GpuCApi, CoalescedCallsOverUnevenBlocksAreOneGroupOfNccl) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    hymnGroup group{world.group()};
    const std::array<std::size_t, 2> counts{1, 2};
    const std::array<std::size_t, 2> others{2, 0};
    Buffer a(gpus, me, me == 0 ? Ints{1} : Ints{2, 3});
    Buffer b(gpus, me, {4, 5});
    Buffer all_a(gpus, me, Ints(3));
    Buffer all_b(gpus, me, Ints(2));
    const std::array<hymnCollectivevCall_t, 2> calls{
        {{a.data(), all_a.data(), counts.data(), nullptr, hymnInt32, 0, 0},
         {b.data(), all_b.data(), others.data(), nullptr, hymnInt32, 0, 0}}};
    EXPECT_EQ(hymnCoalescedv(hymnCollectiveAllGather, calls.data(), 2, &group, nullptr),
              hymnSuccess);
    EXPECT_EQ(all_a.values(), (Ints{1, 2, 3}));
    EXPECT_EQ(all_b.values(), (Ints{4, 5}));
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("group"), 2) << "one for each rank";
  EXPECT_EQ(gpus.count("broadcast"), 6);
}

TEST_F(GpuCApi, BuffersAreRegisteredAndFreed) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    hymnGroup group{world.group()};
    Buffer buffer(gpus, me, {me + 1, 0, 0, 0});
    hymnBuffer_t known = nullptr;
    ASSERT_EQ(hymnBufferRegister(&group, buffer.data(), 12, hymnRegistrationLocal, &known),
              hymnSuccess);
    void* data = nullptr;
    std::size_t bytes = 0;
    int is_registered = -1;
    EXPECT_EQ(hymnBufferData(known, &data), hymnSuccess);
    EXPECT_EQ(hymnBufferBytes(known, &bytes), hymnSuccess);
    EXPECT_EQ(hymnBufferIsRegistered(known, &is_registered), hymnSuccess);
    EXPECT_EQ(data, buffer.data());
    EXPECT_EQ(bytes, 12u);
    EXPECT_EQ(is_registered, 1);
    world.group().all_reduce(buffer.view());
    EXPECT_EQ(buffer.values()[0], 3);
    EXPECT_EQ(hymnBufferFree(known), hymnSuccess);
    world.group().barrier();
  });
  EXPECT_EQ(gpus.count("register"), 2);
  EXPECT_EQ(gpus.count("deregister"), 2);
}

TEST_F(GpuCApi, WindowsOutliveTheirGroup) {
  gpus.run([](World& world) {
    hymnGroup group{world.group()};
    hymnBuffer_t window = nullptr;
    ASSERT_EQ(hymnBufferAllocate(&group, 64, hymnRegistrationWindow, &window), hymnSuccess);
    void* data = nullptr;
    EXPECT_EQ(hymnBufferData(window, &data), hymnSuccess);
    auto* const value = static_cast<float*>(data);
    *value = static_cast<float>(world.rank() + 1);
    EXPECT_EQ(hymnAllReduce(value, value, 1, hymnFloat32, hymnSum, &group, nullptr), hymnSuccess);
    EXPECT_EQ(*value, 3);
    world.group().barrier();
    world.destroy();
    int is_registered = -1;
    EXPECT_EQ(hymnBufferIsRegistered(window, &is_registered), hymnSuccess);
    EXPECT_EQ(is_registered, 0);
    EXPECT_EQ(hymnBufferFree(window), hymnSuccess);
  });
  EXPECT_EQ(gpus.count("open_window"), 2);
  EXPECT_EQ(gpus.count("close_window"), 2);
  EXPECT_TRUE(eventually([this] { return gpus.open_allocations() == 0; }));
}

TEST_F(GpuCApi, WhenCommunicatorsAreMadeArrivesAsItWasAsked) {
  gpus.run([](World& world) {
    hymnWorld handle;
    handle.world = &world;
    const std::array<std::pair<hymnNcclInit_t, std::optional<NcclInit>>, 4> asked{
        {{hymnNcclInitDefault, std::nullopt},
         {hymnNcclInitLazy, NcclInit::lazy},
         {hymnNcclInitEager, NcclInit::eager},
         {hymnNcclInitBackground, NcclInit::background}}};
    const std::array<int, 2> ranks{0, 1};
    for (const auto& [given, expected] : asked) {
      hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
      options.nccl_init = given;
      hymnGroup_t group = nullptr;
      ASSERT_EQ(hymnGroupCreate(&handle, ranks.data(), ranks.size(), &options, &group),
                hymnSuccess);
      EXPECT_EQ(detail::GroupState::of(group->group)->options().nccl.init, expected);
      EXPECT_EQ(hymnGroupFree(group), hymnSuccess);
    }
    world.group().barrier();
  });
}

TEST_F(GpuCApi, WhatIsRefusedIsTold) {
  gpus.set_version(21805);
  gpus.run([this](World& world) {
    hymnGroup group{world.group()};
    Buffer mine(gpus, world.rank(), {1});
    hymnBuffer_t buffer = nullptr;
    EXPECT_EQ(hymnBufferRegister(&group, mine.data(), 4, hymnRegistrationLocal, &buffer),
              hymnUnsupportedError);
    EXPECT_THAT(std::string(hymnGetLastError()),
                HasSubstr("NCCL 2.18.5 has no ncclCommRegister: 2.19 or newer is needed"));
    EXPECT_EQ(buffer, nullptr);
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
