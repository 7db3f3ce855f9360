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
  /// `has_gradients`: each parameter says where its gradient is left. Where memory is, the driver
  /// says that `group` works with. Throws as GradientReducer's constructor does for what is wrong
  /// on this rank alone.
  Model(const ProcessGroup& group, std::vector<Parameter> parameters,
        std::vector<BufferView> buffers, bool has_gradients);

  std::size_t size() const { return entries_.size(); }
  const Parameter& operator[](std::size_t index) const { return entries_[index].parameter; }
  bool is_sparse(std::size_t index) const { return entries_[index].parameter.sparse_dims != 0; }
  /// What a model keeps besides parameters.
  const std::vector<BufferView>& buffers() const { return buffers_; }
  /// They are the caller's.
  void forget_shapes_of_buffers() {
    for (BufferView& buffer : buffers_) buffer = buffer.slice(0, buffer.count);
  }
  /// The GPUs that it is on, as the driver numbers them here, in the order in which parameters, and
  /// then buffers, come to them; and which of these a parameter, or a buffer, is on: -1: on none.
  const std::vector<int>& gpus() const { return gpus_; }
  bool is_on_gpus() const { return !entries_.empty() && entries_.front().gpu >= 0; }
  int gpu_of(std::size_t index) const { return entries_[index].gpu; }
  int gpu_of_buffer(std::size_t index) const { return gpus_of_buffers_[index]; }
  /// "parameter 3 (fc.weight)"
  std::string name_of(std::size_t index) const;
  /// The first few of them by their names.
  std::string names_of(std::span<const std::size_t> indices) const;

 private:
  struct Entry {
    Parameter parameter;
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    int gpu = -1;
  };
  void find_parameters(const ProcessGroup& group);
  void find_buffers(const ProcessGroup& group);
  int number_of(int gpu);
  int driver_number_of(std::size_t index) const;
  void take_gradient(std::size_t index, const ProcessGroup& group);

  std::vector<Entry> entries_;  // the parameters' views show the shapes beside them
  std::vector<BufferView> buffers_;
  std::vector<int> gpus_of_buffers_;
  std::vector<int> gpus_;
};

/// "[2, 3]"
std::string list_text(std::span<const std::int64_t> numbers);

}  // namespace hymn::training::detail
