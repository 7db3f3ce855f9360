// Averages of gradients in the memory of GPUs: doubles of the driver and of NCCL carry them out.
#include "tests/training/gpus/spread.hpp"

namespace hymn::test {
namespace {

using training::GradientReducer;
using training::ReducerOptions;

/// Layers of two types, on the GPUs of the rank in turn.
ToyModel model_on(Spread& toys, const World& world) {
  ToyModel model;
  for (int i = 0; i < 8; ++i) {
    model.in(toys.memory_of(toys.gpu(world, i % toys.each())));
    model.add("layer " + std::to_string(i), {5 + i, 4},
              i % 3 == 0 ? DataType::float64 : DataType::float32);
  }
  return model;
}

class GpuReducer : public testing::TestWithParam<std::pair<int, int>> {
 protected:
  Spread toys{GetParam().first, GetParam().second};
};

TEST_P(GpuReducer, AveragesGradients) {
  for (const bool is_view : {false, true})
    for (const bool is_static : {false, true})
      toys.run([&](World& world) {
        ToyModel model = model_on(toys, world);
        GradientReducer reducer(world.group(), model.parameters(),
                                {.first_bucket_bytes = 100,
                                 .bucket_bytes = 300,
                                 .gradient_as_bucket_view = is_view,
                                 .static_graph = is_static,
                                 .stream = toys.streams()});
        ToyStep step(world, model, reducer);
        for (int iteration = 0; iteration < 4; ++iteration) {
          step.backward(iteration);
          toys.synchronize(world);
          step.expect_averages(iteration);
        }
      });
  EXPECT_EQ(toys.gpus.open_allocations(), 0);
}

INSTANTIATE_TEST_SUITE_P(RanksAndGpus, GpuReducer,
                         testing::Values(std::pair(2, 1), std::pair(3, 1), std::pair(2, 2),
                                         std::pair(3, 2), std::pair(2, 4)));

}  // namespace
}  // namespace hymn::test
