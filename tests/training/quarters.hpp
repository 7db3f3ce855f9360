// What hooks make of gradients of a quarter on all ranks: the figures of PyTorch's tests.
#pragma once

#include "tests/training/toy_step.hpp"

namespace hymn::test {

/// With gradients in buckets or not, and with a static graph or not; each with a hook of its own.
inline void expect_quarters(World& world, const std::function<training::CommHook()>& make_hook,
                            double expected, DataType dtype = DataType::float32) {
  for (const bool is_view : {false, true})
    for (const bool is_static : {false, true}) {
      ToyModel model;
      // 225 elements: also as one square matrix they are of rank 1.
      model.add("weight", {20, 10}, dtype).add("bias", {25}, dtype);
      training::GradientReducer reducer(
          world.group(), model.parameters(),
          {.gradient_as_bucket_view = is_view, .static_graph = is_static, .hook = make_hook()});
      for (int iteration = 0; iteration < 5; ++iteration) {
        reducer.prepare();
        for (std::size_t i = 2; i-- > 0;) {
          ToyModel::fill(reducer.gradient(i), .25);
          reducer.ready(i);
        }
        reducer.finish();
        for (std::size_t i = 0; i < 2; ++i) {
          const auto [least, greatest] = ToyModel::range_of(reducer.gradient(i));
          EXPECT_NEAR(least, expected, 1e-5 * expected);
          EXPECT_NEAR(greatest, expected, 1e-5 * expected);
        }
      }
    }
}

}  // namespace hymn::test
