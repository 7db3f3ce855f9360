// Nets of PyTorch's tests, which compute the gradients of a mean squared error by themselves.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "tests/training/toy_model.hpp"

namespace hymn::test {

using Values = std::vector<double>;
/// One for each parameter, in rows, however the parameter lies.
using Tensors = std::vector<Values>;

struct Samples {
  Tensors inputs;
  Tensors targets;

  Samples slice(std::size_t first, std::size_t count) const {
    const auto part = [&](const Tensors& all) {
      const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
      return Tensors(begin, begin + static_cast<std::ptrdiff_t>(count));
    };
    return {part(inputs), part(targets)};
  }
  /// Of targets that stay where they are, as in PyTorch's tests.
  void shuffle_inputs(unsigned seed) { std::ranges::shuffle(inputs, std::mt19937(seed)); }
};

inline Values random_values(std::size_t count, double scale, std::mt19937& engine) {
  std::normal_distribution<double> normal(0, scale);
  Values values(count);
  for (double& value : values) value = normal(engine);
  return values;
}

inline Samples random_samples(std::size_t count, std::size_t in, std::size_t out) {
  std::mt19937 engine(3);
  Samples samples;
  for (std::size_t i = 0; i < count; ++i) {
    samples.inputs.push_back(random_values(in, 1, engine));
    samples.targets.push_back(random_values(out, 1, engine));
  }
  return samples;
}

/// Of the mean squared error, with respect to the outputs.
inline Values error_of(const Values& outputs, const Values& targets, std::size_t samples) {
  Values gradient(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i)
    gradient[i] = 2 * (outputs[i] - targets[i]) / static_cast<double>(outputs.size() * samples);
  return gradient;
}

/// Matrices one after the other, [out x in], with ReLU between them and softmax in the end.
class Perceptron {
 public:
  explicit Perceptron(std::vector<std::int64_t> widths) : widths_(std::move(widths)) {}

  std::size_t layers() const { return widths_.size() - 1; }
  std::vector<std::int64_t> shape(std::size_t layer) const {
    return {widths_[layer + 1], widths_[layer]};
  }
  Tensors gradients(const Tensors& weights, const Samples& samples) const {
    Tensors sums;
    for (const Values& each : weights) sums.emplace_back(each.size());
    for (std::size_t i = 0; i < samples.inputs.size(); ++i)
      add(weights, samples.inputs[i], samples.targets[i], samples.inputs.size(), sums);
    return sums;
  }

 private:
  static Values times(const Values& matrix, const Values& vector) {
    Values result(matrix.size() / vector.size());
    for (std::size_t i = 0; i < matrix.size(); ++i)
      result[i / vector.size()] += matrix[i] * vector[i % vector.size()];
    return result;
  }
  static Values transposed_times(const Values& matrix, const Values& vector) {
    const std::size_t columns = matrix.size() / vector.size();
    Values result(columns);
    for (std::size_t i = 0; i < matrix.size(); ++i)
      result[i % columns] += matrix[i] * vector[i / columns];
    return result;
  }
  static Values softmax(Values values) {
    double sum = 0;
    for (double& value : values) sum += value = std::exp(value);
    for (double& value : values) value /= sum;
    return values;
  }
  void add(const Tensors& weights, const Values& input, const Values& target, std::size_t samples,
           Tensors& sums) const {
    Tensors given = {input};  // to each layer
    for (std::size_t layer = 0; layer < layers(); ++layer) {
      Values next = times(weights[layer], given.back());
      if (layer + 1 < layers())
        for (double& value : next) value = std::max(value, 0.0);
      given.push_back(next);
    }
    const Values output = softmax(given.back());
    Values error = error_of(output, target, samples);
    double mean = 0;
    for (std::size_t i = 0; i < output.size(); ++i) mean += error[i] * output[i];
    for (std::size_t i = 0; i < output.size(); ++i) error[i] = output[i] * (error[i] - mean);
    for (std::size_t layer = layers(); layer-- > 0;) {
      const Values& in = given[layer];
      for (std::size_t i = 0; i < sums[layer].size(); ++i)
        sums[layer][i] += error[i / in.size()] * in[i % in.size()];
      error = transposed_times(weights[layer], error);
      for (std::size_t i = 0; layer > 0 && i < error.size(); ++i)
        if (in[i] <= 0) error[i] = 0;
    }
  }

  std::vector<std::int64_t> widths_;
};

/// Convolutions by 2 x 2 one after the other: for each a weight [out, in, 2, 2], and a bias.
class Convolutions {
 public:
  Convolutions(std::vector<std::int64_t> channels, std::size_t side)
      : channels_(std::move(channels)), side_(side) {}

  std::size_t layers() const { return channels_.size() - 1; }
  std::vector<std::int64_t> shape(std::size_t layer) const {
    return {channels_[layer + 1], channels_[layer], 2, 2};
  }
  std::size_t inputs() const { return count(0) * side_ * side_; }
  std::size_t outputs() const { return count(layers()) * side_at(layers()) * side_at(layers()); }

  Tensors gradients(const Tensors& parameters, const Samples& samples) const {
    Tensors sums;
    for (const Values& each : parameters) sums.emplace_back(each.size());
    for (std::size_t i = 0; i < samples.inputs.size(); ++i) {
      Tensors given = {samples.inputs[i]};
      for (std::size_t layer = 0; layer < layers(); ++layer)
        given.push_back(forward(layer, parameters, given.back()));
      Values error = error_of(given.back(), samples.targets[i], samples.inputs.size());
      for (std::size_t layer = layers(); layer-- > 0;)
        error = backward(layer, parameters, given[layer], error, sums);
    }
    return sums;
  }

 private:
  std::size_t count(std::size_t layer) const { return static_cast<std::size_t>(channels_[layer]); }
  std::size_t side_at(std::size_t layer) const { return side_ - layer; }

  /// Each product of the convolution: of which output, weight and input.
  template <class Do>
  void each_product(std::size_t layer, Do act) const {
    const std::size_t in = side_at(layer);
    const std::size_t out = in - 1;
    for (std::size_t o = 0; o < count(layer + 1); ++o)
      for (std::size_t i = 0; i < count(layer); ++i)
        for (std::size_t k = 0; k < 4; ++k)
          for (std::size_t y = 0; y < out; ++y)
            for (std::size_t x = 0; x < out; ++x)
              act((o * out + y) * out + x, (o * count(layer) + i) * 4 + k,
                  (i * in + y + k / 2) * in + x + k % 2);
  }
  Values forward(std::size_t layer, const Tensors& parameters, const Values& input) const {
    const std::size_t area = side_at(layer + 1) * side_at(layer + 1);
    Values output(count(layer + 1) * area);
    for (std::size_t i = 0; i < output.size(); ++i) output[i] = parameters[2 * layer + 1][i / area];
    const Values& weight = parameters[2 * layer];
    each_product(layer, [&](std::size_t to, std::size_t by, std::size_t from) {
      output[to] += weight[by] * input[from];
    });
    return output;
  }
  Values backward(std::size_t layer, const Tensors& parameters, const Values& input,
                  const Values& error, Tensors& sums) const {
    const std::size_t area = side_at(layer + 1) * side_at(layer + 1);
    for (std::size_t i = 0; i < error.size(); ++i) sums[2 * layer + 1][i / area] += error[i];
    Values before(input.size());
    const Values& weight = parameters[2 * layer];
    Values& sum = sums[2 * layer];
    each_product(layer, [&](std::size_t to, std::size_t by, std::size_t from) {
      sum[by] += error[to] * input[from];
      before[from] += error[to] * weight[by];
    });
    return before;
  }

  std::vector<std::int64_t> channels_;
  std::size_t side_;
};

/// Where the i-th element in rows lies.
inline std::size_t place_of(const BufferView& view, std::size_t i) {
  std::size_t place = 0;
  for (std::size_t d = view.shape.size(); d-- > 0;) {
    const auto extent = static_cast<std::size_t>(view.shape[d]);
    place += i % extent * static_cast<std::size_t>(view.strides[d]);
    i /= extent;
  }
  return place;
}
inline Values read(const BufferView& view) {
  Values values(view.count);
  for (std::size_t i = 0; i < view.count; ++i) values[i] = ToyModel::get(view, place_of(view, i));
  return values;
}
inline void write(const BufferView& view, const Values& values) {
  for (std::size_t i = 0; i < view.count; ++i) ToyModel::set(view, place_of(view, i), values[i]);
}

}  // namespace hymn::test
