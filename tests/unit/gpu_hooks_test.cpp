// Hooks, timing and the flight recorder on calls that NCCL carries.
#include <map>
#include <nlohmann/json.hpp>

#include "hymn/objects.hpp"
#include "tests/unit/toy_gpu_test.hpp"

namespace hymn::test {
namespace {

/// What the hook of one group is told; a rank's own thread tells it.
class Told {
 public:
  explicit Told(ProcessGroup group) {
    group.on_completion([this](const CompletionInfo& info) { all_.push_back(info); });
  }
  const std::vector<CompletionInfo>& all() const { return all_; }
  std::vector<OpType> types() const {
    std::vector<OpType> types;
    for (const CompletionInfo& info : all_) types.push_back(info.type);
    return types;
  }
  void expect_timed() const {
    for (const CompletionInfo& info : all_) {
      EXPECT_TRUE(info.ok()) << info.error;
      ASSERT_TRUE(info.active.has_value()) << info.name;
      EXPECT_GT(*info.active, Duration::zero()) << info.name;
    }
  }

 private:
  std::vector<CompletionInfo> all_;
};

class GpuHooks : public ToyGpuTest {
 protected:
  /// With timing on.
  void run(const std::function<void(World&)>& body) {
    gpus.run([&](World& world) {
      world.enable_timing();
      body(world);
    });
  }
};

TEST_F(GpuHooks, test_on_completion_hook_broadcast) {
  run([this](World& world) {
    ProcessGroup group = world.new_group({0, 1});
    const Told told(group);
    Buffer buffer(gpus, world.rank(), {world.rank(), world.rank()});
    group.broadcast_async(buffer.view(), 0).wait();
    group.broadcast(buffer.view(), 0);
    group.destroy();
    EXPECT_EQ(told.types(), (std::vector{OpType::broadcast, OpType::broadcast}));
    told.expect_timed();
    EXPECT_EQ(buffer.values(), (Ints{0, 0}));
    world.group().barrier();
  });
}

TEST_F(GpuHooks, test_on_completion_hook_mixed_ops) {
  run([this](World& world) {
    ProcessGroup group = world.new_group({0, 1});
    const Told told(group);
    Buffer sum(gpus, world.rank(), {1});
    Buffer first(gpus, world.rank(), {0});
    Buffer second(gpus, world.rank(), {0});
    const std::vector<BufferView> all{first.view(), second.view()};
    (void)group.all_reduce_async(sum.view());
    (void)group.all_gather_async(sum.view(), all);
    (void)group.all_reduce_async(sum.view());
    group.destroy();  // nobody has waited
    EXPECT_EQ(told.types(),
              (std::vector{OpType::all_reduce, OpType::all_gather, OpType::all_reduce}));
    told.expect_timed();
    EXPECT_EQ(sum.values(), Ints{4});
    EXPECT_EQ(first.values(), Ints{2});
    EXPECT_EQ(second.values(), Ints{2});
    world.group().barrier();
  });
}

TEST_F(GpuHooks, test_on_completion_hook_seq) {
  run([this](World& world) {
    ProcessGroup group = world.new_group({0, 1});
    const Told told(group);
    Buffer buffer(gpus, world.rank(), {7});
    constexpr std::size_t calls = 3;
    for (std::size_t i = 0; i < calls; ++i) group.broadcast_async(buffer.view(), 0).wait();
    EXPECT_EQ(group.collective_sequence(), calls);
    group.destroy();
    ASSERT_EQ(told.all().size(), calls);
    EXPECT_EQ(told.all().back().sequence, calls);
    world.group().barrier();
  });
}

// Objects are packed in the memory of the host: their two calls are told of as any other.
TEST_F(GpuHooks, test_on_completion_hook_all_gather_object) {
  run([](World& world) {
    ProcessGroup group = world.new_group({0, 1});
    const Told told(group);
    const std::map<std::string, int> mine{{"rank", world.rank()}, {"world_size", world.size()}};
    const auto all = all_gather_object(group, mine);
    ASSERT_EQ(all.size(), 2u);
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(all[static_cast<std::size_t>(rank)].at("rank"), rank);
      EXPECT_EQ(all[static_cast<std::size_t>(rank)].at("world_size"), 2);
    }
    group.destroy();
    EXPECT_EQ(told.types(), (std::vector{OpType::all_gather, OpType::all_gather}));
    told.expect_timed();
    world.group().barrier();
  });
}

// Of an operation on a stream the call returns before it is over; its hook comes when it is.
TEST_F(GpuHooks, OfWhatIsOnAStream) {
  run([this](World& world) {
    ProcessGroup group = world.new_group({0, 1});
    const Told told(group);
    void* const stream = gpus.make_stream(world.rank());
    Buffer buffer(gpus, world.rank(), {1});
    group.all_reduce(buffer.view());  // makes the communicator
    world.group().barrier();
    if (world.rank() == 0) gpus.hold("collective");
    world.group().barrier();
    group.all_reduce(buffer.view(), {}, {.stream = stream});
    EXPECT_EQ(told.all().size(), 1u) << "it cannot be over";
    world.group().barrier();
    if (world.rank() == 0) gpus.release();
    group.wait_for_pending_works();
    EXPECT_EQ(told.types(), (std::vector{OpType::all_reduce, OpType::all_reduce}));
    told.expect_timed();
    EXPECT_EQ(buffer.values(), Ints{4});
    world.group().barrier();
  });
}

TEST_F(GpuHooks, TheRecorderKeepsGpuCallsAsAnyOther) {
  for (const bool is_timed : {false, true})
    gpus.run([&, this](World& world) {
      if (is_timed) world.enable_timing();
      Buffer buffer(gpus, world.rank(), {1, 2, 3});
      for (int i = 0; i < 2; ++i) world.group().all_reduce(buffer.view());
      world.group().broadcast_async(buffer.view(), 1).wait();
      const auto record = nlohmann::json::parse(world.flight_record());
      const auto& entries = record.at("entries");
      ASSERT_EQ(entries.size(), 3u);
      for (std::size_t i = 0; i < 3; ++i) {
        const auto& entry = entries[i];
        EXPECT_EQ(entry.at("record_id"), i);
        EXPECT_EQ(entry.at("collective_seq_id"), i + 1);
        EXPECT_EQ(entry.at("profiling_name"), i < 2 ? "hymn:all_reduce" : "hymn:broadcast");
        EXPECT_EQ(entry.at("input_sizes").dump(), "[[3]]");
        EXPECT_EQ(entry.at("state"), "completed");
        EXPECT_EQ(entry.at("retired"), true);
        EXPECT_EQ(entry.at("timeout_ms"), 600000);
        EXPECT_EQ(entry.contains("duration_ms"), is_timed);
        if (is_timed) {
          EXPECT_GT(entry.at("duration_ms"), 0.0);
        }
      }
      world.group().barrier();
    });
}

}  // namespace
}  // namespace hymn::test
