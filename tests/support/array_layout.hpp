// Arrays that lie densely in memory, in any order of their dimensions.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "hymn/buffer.hpp"

namespace hymn::test {

using Sizes = std::vector<std::int64_t>;

/// Where each element of an array lies.
class ArrayLayout {
 public:
  /// `order`: the dimensions from the outermost to the innermost in memory.
  ArrayLayout(Sizes shape, std::vector<std::size_t> order)
      : shape_(std::move(shape)), strides_(shape_.size()), order_(std::move(order)) {
    std::int64_t stride = 1;
    for (std::size_t i = order_.size(); i-- > 0;) {
      strides_[order_[i]] = stride;
      stride *= shape_[order_[i]];
    }
  }

  const Sizes& shape() const { return shape_; }
  const Sizes& strides() const { return strides_; }
  const std::vector<std::size_t>& order() const { return order_; }
  /// The dimension in which blocks lie behind each other.
  std::size_t outermost() const { return order_.front(); }
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::accumulate(shape_.begin(), shape_.end(), std::int64_t{1}, std::multiplies<>()));
  }
  /// The same with another size of the outermost dimension.
  ArrayLayout with_outer(std::int64_t size) const {
    Sizes shape = shape_;
    shape[outermost()] = size;
    return {shape, order_};
  }

  /// In memory, in elements.
  std::size_t place(const Sizes& index) const {
    std::int64_t place = 0;
    for (std::size_t i = 0; i < index.size(); ++i) place += index[i] * strides_[i];
    return static_cast<std::size_t>(place);
  }
  /// Its number when the last dimension is counted first.
  std::int32_t number(const Sizes& index) const {
    std::int64_t number = 0;
    for (std::size_t i = 0; i < index.size(); ++i) number = number * shape_[i] + index[i];
    return static_cast<std::int32_t>(number);
  }
  template <class Visit>
  void for_each(Visit&& visit) const {
    Sizes index(shape_.size());
    for (std::size_t left = count(); left > 0; --left) {
      visit(index);
      for (std::size_t i = index.size(); i-- > 0 && ++index[i] == shape_[i];) index[i] = 0;
    }
  }

  /// The views are of this object's shape and strides.
  template <class View>
  View describe(View view) const {
    view.shape = shape_;
    view.strides = strides_;
    return view;
  }

 private:
  Sizes shape_;
  Sizes strides_;
  std::vector<std::size_t> order_;
};

}  // namespace hymn::test
