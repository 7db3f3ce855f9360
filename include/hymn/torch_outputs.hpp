// The tensors in what a module's forward() returns.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/types.h>

#include <array>
#include <concepts>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace hymn::torch {

using Tensors = std::vector<at::Tensor>;

/// Adds the tensors that are in an output of a module's. For types of your own write another, in
/// their namespace, where find_unused_parameters is used: it finds all that a loss may be made of.
inline void collect_tensors(const at::Tensor& output, Tensors& tensors) {
  if (output.defined()) tensors.push_back(output);
}

namespace detail {

template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };
template <class T>
concept OptionalLike = requires(const T& one) {
  { one.has_value() } -> std::convertible_to<bool>;
  *one;
};
template <class T>
concept Iterable = requires(const T& all) {
  all.begin();
  all.end();
};

/// Also in what tuples, pairs, arrays, optionals, vectors, maps and their like hold.
template <class T>
void collect_all(const T& output, Tensors& tensors) {
  if constexpr (requires { collect_tensors(output, tensors); }) {
    collect_tensors(output, tensors);
  } else if constexpr (TupleLike<T>) {
    std::apply([&](const auto&... each) { (collect_all(each, tensors), ...); }, output);
  } else if constexpr (OptionalLike<T>) {
    if (output.has_value()) collect_all(*output, tensors);
  } else if constexpr (Iterable<T> && !std::convertible_to<T, std::string>) {
    for (const auto& each : output) collect_all(each, tensors);
  }
}

}  // namespace detail

/// All of them.
template <class Output>
Tensors tensors_of(const Output& output) {
  Tensors tensors;
  detail::collect_all(output, tensors);
  return tensors;
}

}  // namespace hymn::torch
