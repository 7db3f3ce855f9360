// The limits of groups on GPUs, and barriers that are given the ids of GPUs.
#include <mutex>
#include <string>

#include "base/log.hpp"
#include "hymn/hymn.h"
#include "runtime/c_api/c_api.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

using namespace std::chrono_literals;

/// What is said meanwhile.
class Warnings {
 public:
  Warnings()
      : before_(set_log_sink([this](LogLevel, int, std::string_view text) {
          const std::lock_guard lock(mutex_);
          text_ += std::string(text) + "\n";
        })) {}
  ~Warnings() { set_log_sink(before_); }
  Warnings(const Warnings&) = delete;
  Warnings& operator=(const Warnings&) = delete;
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  LogSink before_;
};

class GpuLimits : public ToyGpuTest {};

TEST_F(GpuLimits, test_init_process_group_nccl_timeout) {
  const Warnings warnings;
  gpus.run([](World& world) {
    EXPECT_EQ(world.group().timeout(), Timeout(10min));
    EXPECT_EQ(world.new_group({0, 1}, {.timeout = 123s}).timeout(), Timeout(123s));
    EXPECT_EQ(world.new_group({0, 1}, {.timeout = 1240s, .nccl = {.timeout = 123s}}).timeout(),
              Timeout(1240s));
  });
  EXPECT_EQ(warnings.text(), "");
  gpus.run([](World& world) {
    EXPECT_EQ(world.new_group({0, 1}, {.nccl = {.timeout = 123s}}).timeout(), Timeout(10min));
  });
  EXPECT_THAT(warnings.text(), HasSubstr("the timeout in the NCCL options of group"));
  EXPECT_THAT(warnings.text(), HasSubstr("is ignored; remedy: give it as GroupOptions::timeout"));
  gpus.run([](World& world) { EXPECT_EQ(world.group().timeout(), Timeout(123s)); },
           {.timeout = 123s});
  Config config;
  config.timeout = Timeout::none();
  gpus.run([](World& world) { EXPECT_TRUE(world.group().timeout().is_none()); }, {}, config);
}

TEST_F(GpuLimits, GroupsOnTheHostHaveThirtyMinutes) {
  gpus.run_with_others(3, [](World& world) {
    EXPECT_EQ(world.group().timeout(), Timeout(30min)) << "one of them has no GPU";
    ProcessGroup pair = world.new_group({0, 1});
    if (pair.is_member()) {
      EXPECT_EQ(pair.timeout(), Timeout(10min));
    }
    world.group().barrier();
  });
}

TEST_F(GpuLimits, test_set_nccl_pg_timeout) {
  gpus.run(
      [this](World& world) {
        ProcessGroup group = world.group();
        Buffer buffer(gpus, world.rank(), {1});
        group.all_reduce(buffer.view());
        EXPECT_EQ(group.timeout(), Timeout(123s));
        for (const Timeout next : {Timeout(23s), Timeout(252s)}) {
          group.set_timeout(next);
          EXPECT_EQ(group.timeout(), next);
          group.all_reduce(buffer.view());
        }
        EXPECT_EQ(buffer.values(), Ints{8});
        group.barrier();
      },
      {.timeout = 123s});
}

TEST_F(GpuLimits, test_nccl_barrier_device_ids) {
  gpus.run([this](World& world) {
    const int me = world.rank();
    const std::vector<int> ids{world.gpu()};
    for (const char* const path : {"", "^nccl"}) {
      ProcessGroup group = world.new_group({0, 1}, {.path = path});
      group.barrier(ids);
      group.barrier_async(ids).wait();
      EXPECT_EQ(group.collective_sequence(), 2u);
      // What the stream held is over on both GPUs.
      void* const stream = gpus.make_stream(me);
      bool done = false;
      gpus.enqueue(stream, [&done] { done = true; });
      group.barrier(ids, {.stream = stream});
      EXPECT_TRUE(done) << path;

      const std::string own = "this rank works on GPU " + std::to_string(me);
      EXPECT_THAT(thrown_by<UsageError>([&] { group.barrier({1 - me}); }), HasSubstr(own));
      EXPECT_THAT(thrown_by<UsageError>([&] { (void)group.barrier_async({7}); }), HasSubstr(own));
      EXPECT_THAT(thrown_by<UsageError>([&] { group.barrier(me); }),
                  HasSubstr("Invalid function argument"));
      EXPECT_EQ(group.collective_sequence(), 3u);
    }
    hymnGroup group{world.group()};
    hymnWork_t work = nullptr;
    EXPECT_EQ(hymnBarrierOnDevices(ids.data(), 1, &group, nullptr), hymnSuccess);
    EXPECT_EQ(hymnIBarrierOnDevices(ids.data(), 1, &group, nullptr, &work), hymnSuccess);
    EXPECT_EQ(hymnWorkWait(work), hymnSuccess);
    EXPECT_EQ(hymnWorkFree(work), hymnSuccess);
    EXPECT_EQ(hymnBarrierOnDevices(nullptr, 1, &group, nullptr), hymnUsageError);
    EXPECT_THAT(hymnGetLastError(), HasSubstr("Invalid function argument"));
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
