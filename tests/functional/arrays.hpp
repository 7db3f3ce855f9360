// What tests of functional collectives share: arrays of one number, and of numbers that tell where
// they come from.
#pragma once

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "hymn/array.hpp"
#include "hymn/functional.hpp"
#include "tests/support/errors.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {

namespace fc = hymn::functional;

inline Array ones(Shape shape) { return Array::full<float>(std::move(shape), 1); }

/// first, first + 1, …
inline Array counting(Shape shape, float first = 0) {
  Array array = Array::empty(std::move(shape), DataType::float32);
  const std::span<float> elements = array.mutable_values<float>();
  std::iota(elements.begin(), elements.end(), first);
  return array;
}

template <Element T>
std::vector<T> elements_of(const Array& array) {
  const Array whole = array.contiguous();
  const std::span<const T> elements = whole.values<T>();
  return {elements.begin(), elements.end()};
}

/// The array has this shape, and this number everywhere.
template <Element T>
void expect_all(const Array& array, const Shape& shape, T value) {
  EXPECT_EQ(array.shape(), shape);
  for (const T element : elements_of<T>(array)) ASSERT_EQ(element, value);
}

/// Of the ranks in rows of two; for an even number of them.
inline Mesh two_columns(World& world) {
  return {world, {static_cast<std::size_t>(world.size()) / 2, 2}, {"dp", "tp"}};
}

inline Mesh one_row(World& world) { return {world, {static_cast<std::size_t>(world.size())}}; }

}  // namespace hymn::test
