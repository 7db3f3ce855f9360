// A model whose gradients are known beforehand: what rank r gives for parameter p in iteration i.
#pragma once

#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "hymn/gradient_reducer.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {

/// Small whole numbers, which sum up exactly in float32.
inline double toy_gradient(int rank, std::size_t parameter, int iteration) {
  return 60.0 * (rank + 1) + 2.0 * static_cast<double>(parameter % 30) + iteration % 10;
}

/// Of group ranks 0 to `ranks` - 1, of which those outside `from` give nothing.
inline double toy_average(int ranks, const std::vector<int>& from, std::size_t parameter,
                          int iteration) {
  double sum = 0;
  for (const int rank : from) sum += toy_gradient(rank, parameter, iteration);
  return sum / ranks;
}
inline double toy_average(int ranks, std::size_t parameter, int iteration) {
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  return toy_average(ranks, all, parameter, iteration);
}

class ToyModel {
 public:
  /// Memory of the host or of a GPU, which the host can see into; zeros.
  using Allocate = std::function<std::shared_ptr<std::byte>(std::size_t bytes)>;

  ToyModel() = default;
  /// Where parameters are that are added from now on.
  ToyModel& in(Allocate allocate) {
    allocate_ = std::move(allocate);
    return *this;
  }
  /// Adds a parameter; strides: row-major unless given.
  ToyModel& add(const std::string& name, std::vector<std::int64_t> shape,
                DataType dtype = DataType::float32, std::vector<std::int64_t> strides = {}) {
    Layer& layer = layers_.emplace_back();
    layer.name = name;
    layer.shape = std::move(shape);
    layer.dtype = dtype;
    for (const std::int64_t extent : layer.shape) layer.count *= static_cast<std::size_t>(extent);
    layer.strides = std::move(strides);
    if (layer.strides.empty()) {
      layer.strides.resize(layer.shape.size());
      std::int64_t step = 1;
      for (std::size_t i = layer.shape.size(); i-- > 0; step *= layer.shape[i])
        layer.strides[i] = step;
    }
    layer.values = allocate_(layer.count * size_of(dtype));
    layer.gradient = allocate_(layer.count * size_of(dtype));
    return *this;
  }

  std::size_t size() const { return layers_.size(); }
  std::vector<training::Parameter> parameters() {
    std::vector<training::Parameter> parameters;
    for (Layer& layer : layers_)
      parameters.push_back({layer.name, view(layer, layer.values), view(layer, layer.gradient)});
    return parameters;
  }

  /// Adds to the gradient, as a framework does.
  void accumulate(BufferView gradient, double value) {
    for (std::size_t i = 0; i < gradient.count; ++i) set(gradient, i, get(gradient, i) + value);
  }
  static void fill(BufferView view, double value) {
    for (std::size_t i = 0; i < view.count; ++i) set(view, i, value);
  }
  /// One element, where it lies in memory; of a complex one get() is NaN where it is not as set()
  /// has made it.
  static void set(const BufferView& view, std::size_t i, double value) {
    with_type(view, [&](auto* elements) {
      using T = std::remove_reference_t<decltype(*elements)>;
      if constexpr (std::is_same_v<T, std::complex<float>>)
        elements[i] = {static_cast<float>(value), static_cast<float>(-value)};
      else if constexpr (std::is_arithmetic_v<T>)
        elements[i] = static_cast<T>(value);
      else
        elements[i] = T(static_cast<float>(value));
    });
  }
  static double get(const BufferView& view, std::size_t i) {
    double value = 0;
    with_type(view, [&](auto* elements) {
      using T = std::remove_reference_t<decltype(*elements)>;
      if constexpr (std::is_same_v<T, std::complex<float>>)
        value = elements[i].imag() == -elements[i].real() ? elements[i].real() : std::nan("");
      else
        value = static_cast<double>(static_cast<float>(elements[i]));
    });
    return value;
  }
  /// The least and the greatest element.
  static std::pair<double, double> range_of(BufferView view) {
    std::pair<double, double> range{view.count == 0 ? 0 : get(view, 0), 0};
    range.second = range.first;
    for (std::size_t i = 1; i < view.count; ++i) {
      const double value = get(view, i);
      if (std::isnan(value)) return {value, value};
      range.first = std::min(range.first, value);
      range.second = std::max(range.second, value);
    }
    return range;
  }
  /// All elements, where they are the same; else NaN.
  static double value_of(BufferView view) {
    const auto [least, greatest] = range_of(view);
    return least == greatest ? least : std::nan("");
  }

 private:
  struct Layer {
    std::string name;
    std::vector<std::int64_t> shape, strides;
    DataType dtype = DataType::float32;
    std::size_t count = 1;
    std::shared_ptr<std::byte> values, gradient;
  };

  static std::shared_ptr<std::byte> of_the_host(std::size_t bytes) {
    const auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    return {memory, memory->data()};
  }
  static BufferView view(Layer& layer, const std::shared_ptr<std::byte>& memory) {
    BufferView view(memory.get(), layer.count, layer.dtype);
    view.shape = layer.shape;
    view.strides = layer.strides;
    return view;
  }

  template <class Use>
  static void with_type(const BufferView& view, Use use) {
    if (view.dtype == DataType::float64) return use(static_cast<double*>(view.data));
    if (view.dtype == DataType::float16) return use(static_cast<float16*>(view.data));
    if (view.dtype == DataType::bfloat16) return use(static_cast<bfloat16*>(view.data));
    if (view.dtype == DataType::complex64) return use(static_cast<std::complex<float>*>(view.data));
    use(static_cast<float*>(view.data));
  }
  Allocate allocate_ = of_the_host;
  std::list<Layer> layers_;  // parameters see into them
};

}  // namespace hymn::test
