// What is trained: a network with one hidden layer, and stochastic gradient descent with momentum.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "examples/uneven_training/samples.hpp"

namespace uneven {

struct Settings {
  int epochs = 12;
  std::size_t batch = 16;  ///< samples of one rank in a step
  std::size_t hidden = 32;
  float rate = 0.05f;
  float momentum = 0.9f;
  std::uint64_t seed = 1;
};

/// Linear, rectified, linear, softmax. The same numbers give the same bits on every rank: all is
/// computed in a fixed order.
class Model {
 public:
  Model(const Samples& shape, const Settings& settings);

  /// Sums over samples, as they travel between ranks: the gradient of the loss, then the loss
  /// itself, then the number of samples.
  std::size_t sums_size() const { return weights_ + 2; }
  /// Adds those of one sample.
  void add(const Samples& samples, std::size_t sample, std::span<float> sums);
  /// Changes the weights by the mean gradient of all samples in these sums.
  void step(std::span<const float> sums);

  /// All that a rank must have to go on where another one is: weights, momentum, and the loss and
  /// the number of samples of the epoch so far.
  std::span<float> state() { return state_; }
  std::span<const float> weights() const { return std::span(state_).first(weights_); }
  void begin_epoch();
  double mean_loss() const;
  std::size_t samples() const;

  /// The part of these samples that is told right.
  double accuracy(const Samples& samples);

 private:
  /// Fills hidden_ and outputs_, the latter without softmax.
  void forward(std::span<const float> features);

  std::size_t features_;
  std::size_t hidden_count_;
  std::size_t classes_;
  float rate_;
  float momentum_;
  std::size_t weights_;
  std::vector<float> state_;
  std::vector<float> hidden_;
  std::vector<float> outputs_;
};

}  // namespace uneven
