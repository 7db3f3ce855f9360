// The parameters of a model as a reducer keeps them: looked at, and with shapes of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hymn/gradient_reducer.hpp"

namespace hymn::training::detail {

class Model {
 public:
  /// `has_gradients`: each parameter says where its gradient is left. Throws as GradientReducer's
  /// constructor does for what is wrong on this rank alone.
  Model(std::vector<Parameter> parameters, bool has_gradients);

  std::size_t size() const { return entries_.size(); }
  const Parameter& operator[](std::size_t index) const { return entries_[index].parameter; }
  bool is_sparse(std::size_t index) const { return entries_[index].parameter.sparse_dims != 0; }
  /// "parameter 3 (fc.weight)"
  std::string name_of(std::size_t index) const;
  /// The first few of them by their names.
  std::string names_of(std::span<const std::size_t> indices) const;

 private:
  struct Entry {
    Parameter parameter;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
  };
  void take_gradient(std::size_t index);

  std::vector<Entry> entries_;  // the parameters' views show the shapes beside them
};

/// Throws UsageError, or UnsupportedError, for a buffer that cannot be broadcast as it lies.
void require_usable(const BufferView& buffer, std::size_t index);

/// "[2, 3]"
std::string list_text(std::span<const std::int64_t> numbers);

}  // namespace hymn::training::detail
