// Iterations of a toy model, and what has to come of them.
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "tests/training/toy_model.hpp"

namespace hymn::test {

class ToyStep {
 public:
  ToyStep(World& world, ToyModel& model, training::GradientReducer& reducer)
      : ToyStep(world, model, reducer, world.group()) {}
  ToyStep(World&, ToyModel& model, training::GradientReducer& reducer, ProcessGroup group)
      : parameters_(model.parameters()), reducer_(reducer), group_(std::move(group)) {}

  /// All parameters, the last first.
  void backward(int iteration) {
    std::vector<std::size_t> order(parameters_.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
    backward(iteration, order);
  }
  void backward(int iteration, const std::vector<std::size_t>& order) {
    reducer_.prepare();
    give(iteration, order);
    reducer_.finish();
  }
  /// Between prepare() and finish().
  void give(int iteration, const std::vector<std::size_t>& order) {
    for (const std::size_t i : order) {
      ToyModel::fill(reducer_.gradient(i), toy_gradient(group_.rank(), i, iteration));
      reducer_.ready(i);
    }
  }

  void expect_averages(int iteration, double tolerance = 0) const {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
      expect(i, toy_average(group_.size(), i, iteration), tolerance);
  }
  void expect(std::size_t parameter, double value, double tolerance = 0) const {
    const BufferView gradient = reducer_.gradient(parameter);
    if (gradient.count == 0) return;
    EXPECT_NEAR(ToyModel::value_of(gradient), value,
                value * std::max(tolerance, rounding(gradient.dtype)))
        << "parameter " << parameter << " (" << parameters_[parameter].name << ") on rank "
        << group_.rank() << " of " << group_.size();
  }

 private:
  static double rounding(DataType dtype) {
    if (dtype == DataType::bfloat16) return 0x1p-8;
    return dtype == DataType::float16 ? 0x1p-11 : 0x1p-22;
  }

  std::vector<training::Parameter> parameters_;
  training::GradientReducer& reducer_;
  ProcessGroup group_;
};

}  // namespace hymn::test
