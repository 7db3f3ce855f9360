// Tensors as hymn's calls take them: a type, a number of elements, and where they lie.
#pragma once

#include <ATen/ATen.h>
#include <hymn/hymn.h>

#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace hymn_torch {

/// Of any type that is moved; NotImplementedError for others (quantized ones).
hymnDataType_t moved_type(at::ScalarType type, const char* call);
/// Of a type that is reduced.
hymnDataType_t reduced_type(at::ScalarType type, const char* call);
/// torch's reductions, with the factor of PREMUL_SUM.
hymnOp_t reduction(const c10d::ReduceOp& op, const char* call);

/// The only tensor of a list; ValueError where there are none or several.
at::Tensor& only(std::vector<at::Tensor>& tensors, const char* call);
/// ValueError unless there is a list of so many.
std::vector<at::Tensor>& only(std::vector<std::vector<at::Tensor>>& lists, int64_t count,
                              const char* call);
/// All of one type, which they must be.
at::ScalarType type_of(const at::Tensor& first, const std::vector<at::Tensor>& others,
                       const char* call);
/// Elements of a tensor in the memory of the host or of a GPU; NotImplementedError for any other.
std::size_t count_of(const at::Tensor& tensor, const char* call);

/// The memory of one call. Elements of a tensor that do not lie one after the other are copied
/// here, and back when the call is over.
class Buffers {
 public:
  /// Where the elements are read.
  void* input(const at::Tensor& tensor);
  /// Where results are written.
  void* output(const at::Tensor& tensor);
  /// Where elements are read, and results written in their place.
  void* in_place(const at::Tensor& tensor);

  /// Where all of it is; ValueError where some of it is elsewhere.
  c10::Device device() const { return device_; }
  /// Results to where they belong: on a GPU, in the order of this thread's current stream.
  void copy_back();
  /// Returns when they are there.
  void finish_copies();

 private:
  void note(c10::Device device);
  void* keep(at::Tensor tensor);

  c10::Device device_{c10::DeviceType::CPU};
  std::vector<at::Tensor> kept_;
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_;  ///< to, from
};

}  // namespace hymn_torch
