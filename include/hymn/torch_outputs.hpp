// The tensors in what a module's forward() returns.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/types.h>

#include <array>
#include <map>
#include <optional>
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

// Types of the standard library: a loop over what they hold.
struct Collector {
  Tensors& tensors;

  template <class T>
  void operator()(const T& one) {
    if constexpr (requires { collect_tensors(one, tensors); }) collect_tensors(one, tensors);
  }
  template <class... Ts>
  void operator()(const std::tuple<Ts...>& all) {
    std::apply([this](const Ts&... each) { ((*this)(each), ...); }, all);
  }
  template <class A, class B>
  void operator()(const std::pair<A, B>& both) {
    (*this)(both.first);
    (*this)(both.second);
  }
  template <class T>
  void operator()(const std::optional<T>& one) {
    if (one) (*this)(*one);
  }
  template <class T>
  void operator()(const std::vector<T>& all) {
    for (const T& each : all) (*this)(each);
  }
  template <class T, std::size_t n>
  void operator()(const std::array<T, n>& all) {
    for (const T& each : all) (*this)(each);
  }
  template <class T>
  void operator()(const std::map<std::string, T>& all) {
    for (const auto& [name, each] : all) (*this)(each);
  }
};

}  // namespace detail

/// All of them.
template <class Output>
Tensors tensors_of(const Output& output) {
  Tensors tensors;
  detail::Collector{tensors}(output);
  return tensors;
}

}  // namespace hymn::torch
