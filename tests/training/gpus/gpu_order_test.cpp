// Gradients in the order of the framework's streams: the host goes on, and what follows on a stream
// finds averages.
#include <chrono>
#include <thread>

#include "tests/training/gpus/spread.hpp"

namespace hymn::test {
namespace {

using training::GradientReducer;

class GpuOrder : public testing::Test {
 protected:
  /// As a kernel of the framework's.
  void fill_later(void* stream, const BufferView& view, double value) {
    toys.gpus.enqueue(stream, [view, value] { ToyModel::fill(view, value); });
  }
  /// Iterations, of which each is over on the GPUs, too, before the next.
  void run_five(World& world, ToyStep& step) {
    for (int iteration = 0; iteration < 5; ++iteration) {
      step.backward(iteration);
      toys.synchronize(world);
      world.group().barrier();
    }
  }
  Spread toys{2, 2};
};

// Gradients are computed behind a gate, which opens when the host is through with the iteration.
TEST_F(GpuOrder, TheHostDoesNotWait) {
  for (const bool is_view : {false, true})
    toys.run([&](World& world) {
      ToyModel model;
      for (int i = 0; i < 4; ++i)
        model.in(toys.memory_of(toys.gpu(world, i % 2))).add("layer", {50});
      GradientReducer reducer(
          world.group(), model.parameters(),
          {.first_bucket_bytes = 1, .gradient_as_bucket_view = is_view, .stream = toys.streams()});
      for (int iteration = 0; iteration < 4; ++iteration) {
        std::vector<std::function<void()>> gates;
        // The first use of a group makes its communicator, for which the host waits.
        for (int k = 0; k < 2 && iteration > 0; ++k)
          gates.push_back(toys.gpus.gate(toys.stream(toys.gpu(world, k))));
        reducer.prepare();
        for (std::size_t i = 4; i-- > 0;) {
          fill_later(toys.stream(toys.gpu(world, static_cast<int>(i % 2))), reducer.gradient(i),
                     toy_gradient(world.rank(), i, iteration));
          reducer.ready(i);
        }
        reducer.finish();
        std::vector<double> seen(4, -1);
        for (std::size_t i = 0; i < 4; ++i)
          toys.gpus.enqueue(
              toys.stream(toys.gpu(world, static_cast<int>(i % 2))),
              [&seen, i, view = reducer.gradient(i)] { seen[i] = ToyModel::value_of(view); });
        if (iteration > 0) {
          EXPECT_EQ(seen, std::vector<double>(4, -1));
        }
        for (const auto& open : gates) open();
        toys.synchronize(world);
        for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(seen[i], toy_average(2, i, iteration));
      }
    });
}

// The framework computes on several streams, and on others in the next iteration.
TEST_F(GpuOrder, StreamsMayDifferAtEachCall) {
  for (const bool is_view : {false, true})
    toys.run([&](World& world) {
      const int gpu = toys.gpu(world, 0);
      std::vector<void*> streams;
      for (int i = 0; i < 3; ++i) streams.push_back(toys.gpus.make_stream(gpu));
      void* now = streams[0];
      ToyModel model;
      model.in(toys.memory_of(gpu)).add("a", {50}).add("b", {50}).add("c", {50});
      GradientReducer reducer(world.group(), model.parameters(),
                              {.first_bucket_bytes = 400,
                               .bucket_bytes = 400,
                               .gradient_as_bucket_view = is_view,
                               .stream = [&](int) { return now; }});
      for (int iteration = 0; iteration < 6; ++iteration) {
        // What the last iteration enqueued may wait still: the next comes after it on its own.
        std::vector<std::function<void()>> gates;
        now = streams[static_cast<std::size_t>(iteration) % 3];
        reducer.prepare();
        for (std::size_t i = 3; i-- > 0;) {
          now = streams[(i + static_cast<std::size_t>(iteration)) % 3];
          if (iteration > 0) gates.push_back(toys.gpus.gate(now));
          fill_later(now, reducer.gradient(i), toy_gradient(world.rank(), i, iteration));
          reducer.ready(i);
        }
        now = streams[static_cast<std::size_t>(iteration + 1) % 3];
        reducer.finish();
        for (auto gate = gates.rbegin(); gate != gates.rend(); ++gate) (*gate)();
        std::vector<double> seen(3, -1);
        for (std::size_t i = 0; i < 3; ++i)
          toys.gpus.enqueue(
              now, [&seen, i, view = reducer.gradient(i)] { seen[i] = ToyModel::value_of(view); });
        EXPECT_TRUE(toys.gpus.synchronize(now));
        for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(seen[i], toy_average(2, i, iteration));
      }
      for (void* const stream : streams) EXPECT_TRUE(toys.gpus.synchronize(stream));
    });
}

// What the last iteration has still to take from a bucket is not cleared before, on another stream.
TEST_F(GpuOrder, ALateStreamFindsItsAverages) {
  toys.run([&](World& world) {
    const int gpu = toys.gpu(world, 0);
    void* const late = toys.stream(gpu);
    void* const other = toys.gpus.make_stream(gpu);
    void* now = late;
    ToyModel model;
    model.in(toys.memory_of(gpu)).add("a", {50});
    GradientReducer reducer(world.group(), model.parameters(),
                            {.find_unused_parameters = true, .stream = [&](int) { return now; }});
    const std::vector<std::size_t> all = {0}, none;
    std::function<void()> open = [] {};
    for (int iteration = 0; iteration < 2; ++iteration) {
      reducer.prepare(all);
      fill_later(now, reducer.gradient(0), toy_gradient(world.rank(), 0, iteration));
      reducer.ready(0);
      if (iteration == 1) open = toys.gpus.gate(late);
      reducer.finish();
    }
    now = other;
    // That all know who is used, the host waits for.
    std::jthread opener([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      open();
    });
    reducer.prepare(none);
    reducer.finish();
    opener.join();
    EXPECT_TRUE(toys.gpus.synchronize(late));
    EXPECT_EQ(ToyModel::value_of(reducer.gradient(0)), toy_average(2, 0, 1));
    EXPECT_TRUE(toys.gpus.synchronize(other));
  });
}

TEST_F(GpuOrder, WithoutAStreamItIsTheDefaultOne) {
  toys.run([&](World& world) {
    ToyModel model;
    for (int i = 0; i < 4; ++i) model.in(toys.memory_of(toys.gpu(world, i % 2))).add("layer", {50});
    GradientReducer reducer(world.group(), model.parameters());
    const auto stream_of = [&](std::size_t i) {
      return toys.gpus.default_stream(toys.gpu(world, static_cast<int>(i % 2)));
    };
    for (int iteration = 0; iteration < 3; ++iteration) {
      reducer.prepare();
      for (std::size_t i = 4; i-- > 0;) {
        fill_later(stream_of(i), reducer.gradient(i), toy_gradient(world.rank(), i, iteration));
        reducer.ready(i);
      }
      reducer.finish();
      for (std::size_t i = 0; i < 4; ++i) {
        EXPECT_TRUE(toys.gpus.synchronize(stream_of(i)));
        EXPECT_EQ(ToyModel::value_of(reducer.gradient(i)), toy_average(2, i, iteration));
      }
    }
  });
}

// Gradients in buckets outlive the reducer, and their memory goes when nothing works on it.
TEST_F(GpuOrder, MemoryGoesWithItsLastOwner) {
  constexpr int of_groups = 2;  // a few bytes for what has no data, once for each GPU
  toys.run([&](World& world) {
    const int gpu = toys.gpu(world, 1);
    ToyModel model;
    model.in(toys.memory_of(gpu)).add("a", {50}).add("b", {50}, DataType::float64);
    std::shared_ptr<void> owner;
    BufferView gradient;
    {
      GradientReducer reducer(world.group(), model.parameters(),
                              {.gradient_as_bucket_view = true, .stream = toys.streams()});
      ToyStep step(world, model, reducer);
      // What is over is noticed in later calls.
      run_five(world, step);
      owner = reducer.gradient_owner(0);
      gradient = reducer.gradient(0);
      EXPECT_EQ(toys.gpus.open_on_streams(), 4) << "two buckets on each of two ranks";
      world.group().barrier();
    }
    world.group().barrier();
    EXPECT_TRUE(eventually([this] { return toys.gpus.open_on_streams() == 2; }));
    EXPECT_EQ(toys.gpus.open_allocations(), of_groups);
    EXPECT_EQ(ToyModel::value_of(gradient), toy_average(2, 0, 4));
    world.group().barrier();
  });
  EXPECT_EQ(toys.gpus.open_allocations(), 0);
  EXPECT_TRUE(eventually([this] { return toys.gpus.open_on_streams() == 0; }));
}

// The framework's kernels may still read gradients in buckets when the reducer goes.
TEST_F(GpuOrder, MemoryStaysWhileAStreamMayUseIt) {
  toys.run([&](World& world) {
    const int gpu = toys.gpu(world, 1);
    ToyModel model;
    model.in(toys.memory_of(gpu)).add("a", {50}).add("b", {50}, DataType::float64);
    std::shared_ptr<void> owner;
    std::function<void()> open;
    double seen = -1;
    int before = 0;
    {
      GradientReducer reducer(world.group(), model.parameters(),
                              {.gradient_as_bucket_view = true, .stream = toys.streams()});
      ToyStep step(world, model, reducer);
      run_five(world, step);
      owner = reducer.gradient_owner(0);
      before = toys.gpus.open_on_streams();
      world.group().barrier();
      open = toys.gpus.gate(toys.stream(gpu));
      toys.gpus.enqueue(toys.stream(gpu), [&seen, gradient = reducer.gradient(1)] {
        seen = ToyModel::value_of(gradient);
      });
    }
    EXPECT_EQ(toys.gpus.open_on_streams(), before);
    world.group().barrier();
    open();
    toys.synchronize(world);
    EXPECT_EQ(seen, toy_average(2, 1, 4));
    owner.reset();
    world.group().barrier();
    EXPECT_TRUE(eventually([this] { return toys.gpus.open_on_streams() == 0; }));
    world.group().barrier();
  });
}

}  // namespace
}  // namespace hymn::test
