// Tensors as hymn's calls take them.
#include "tensors.hpp"

#include <c10/core/GradMode.h>

#include <optional>

#include "device_stream.hpp"
#include "errors.hpp"

namespace hymn_torch {
namespace {

[[noreturn]] void refuse(const char* call, const std::string& what) {
  throw_not_implemented(std::string("hymn: ") + call + " of " + what + " is not supported");
}

struct Type {
  hymnDataType_t type;
  bool is_reduced = true;  ///< false: hymn does not know what its bits mean
};

std::optional<Type> find_type(at::ScalarType type) {
  switch (type) {
    case at::kBool:
      return Type{hymnBool};
    case at::kByte:
      return Type{hymnUint8};
    case at::kChar:
      return Type{hymnInt8};
    case at::kShort:
      return Type{hymnInt16};
    case at::kInt:
      return Type{hymnInt32};
    case at::kLong:
      return Type{hymnInt64};
    case at::kUInt16:
      return Type{hymnUint16};
    case at::kUInt32:
      return Type{hymnUint32};
    case at::kUInt64:
      return Type{hymnUint64};
    case at::kHalf:
      return Type{hymnFloat16};
    case at::kBFloat16:
      return Type{hymnBfloat16};
    case at::kFloat:
      return Type{hymnFloat32};
    case at::kDouble:
      return Type{hymnFloat64};
    case at::kComplexFloat:
      return Type{hymnComplex64};
    case at::kComplexDouble:
      return Type{hymnComplex128};
    case at::kFloat8_e4m3fn:
      return Type{hymnFloat8e4m3};
    case at::kFloat8_e5m2:
      return Type{hymnFloat8e5m2};
    case at::kFloat8_e4m3fnuz:
    case at::kFloat8_e5m2fnuz:
      return Type{HYMN_VALUE(1), false};
    case at::kComplexHalf:
      return Type{HYMN_VALUE(4), false};
    default:
      return std::nullopt;
  }
}

/// Memory in which the elements stand one after the other, as they are.
bool is_plain(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

}  // namespace

hymnDataType_t moved_type(at::ScalarType type, const char* call) {
  const auto found = find_type(type);
  if (!found) refuse(call, toString(type));
  return found->type;
}

hymnDataType_t reduced_type(at::ScalarType type, const char* call) {
  const auto found = find_type(type);
  if (!found || !found->is_reduced) refuse(call, toString(type));
  return found->type;
}

hymnOp_t reduction(const c10d::ReduceOp& op, const char* call) {
  switch (op.op_) {
    case c10d::ReduceOp::SUM:
      return hymnSum;
    case c10d::ReduceOp::AVG:
      return hymnAvg;
    case c10d::ReduceOp::PRODUCT:
      return hymnProd;
    case c10d::ReduceOp::MIN:
      return hymnMin;
    case c10d::ReduceOp::MAX:
      return hymnMax;
    case c10d::ReduceOp::BAND:
      return hymnBand;
    case c10d::ReduceOp::BOR:
      return hymnBor;
    case c10d::ReduceOp::BXOR:
      return hymnBxor;
    case c10d::ReduceOp::PREMUL_SUM: {
      const auto* const factor =
          dynamic_cast<const c10d::NCCLPreMulSumSupplement*>(op.supplement_.get());
      if (factor == nullptr) throw_value_error(std::string("hymn: ") + call + " lacks its factor");
      return hymnOpPremulSum(factor->tensor_factor.defined() ? factor->tensor_factor.item<double>()
                                                             : factor->double_factor);
    }
    default:
      refuse(call, "an unknown reduction");
  }
}

at::Tensor& only(std::vector<at::Tensor>& tensors, const char* call) {
  if (tensors.size() != 1)
    throw_value_error(std::string("hymn: ") + call + " takes one tensor, not " +
                      std::to_string(tensors.size()));
  return tensors.front();
}

std::vector<at::Tensor>& only(std::vector<std::vector<at::Tensor>>& lists, int64_t count,
                              const char* call) {
  if (lists.size() != 1)
    throw_value_error(std::string("hymn: ") + call + " takes one list of tensors, not " +
                      std::to_string(lists.size()));
  if (static_cast<int64_t>(lists.front().size()) != count)
    throw_value_error(std::string("hymn: ") + call + " takes a list of " + std::to_string(count) +
                      " tensors, one for each rank, not of " +
                      std::to_string(lists.front().size()));
  return lists.front();
}

at::ScalarType type_of(const at::Tensor& first, const std::vector<at::Tensor>& others,
                       const char* call) {
  const at::ScalarType type = first.scalar_type();
  for (const at::Tensor& other : others)
    if (other.scalar_type() != type)
      throw_value_error(std::string("hymn: ") + call + " has tensors of two types: " +
                        toString(type) + " and " + toString(other.scalar_type()));
  return type;
}

std::size_t count_of(const at::Tensor& tensor, const char* call) {
  if (tensor.layout() != at::kStrided) refuse(call, "a sparse tensor");
  if (!tensor.device().is_cpu() && !tensor.device().is_cuda())
    refuse(call, "a tensor on " + tensor.device().str());
  return static_cast<std::size_t>(tensor.numel());
}

void Buffers::note(c10::Device device) {
  const bool is_first = kept_.empty() && copies_.empty();
  if (!is_first && device != device_)
    throw_value_error("hymn: a call has tensors on " + device_.str() + " and on " + device.str());
  device_ = device;
}

void* Buffers::keep(at::Tensor tensor) {
  note(tensor.device());
  kept_.push_back(std::move(tensor));
  return kept_.back().data_ptr();
}

void* Buffers::input(const at::Tensor& tensor) {
  if (is_plain(tensor)) return keep(tensor);
  const c10::NoGradGuard no_grad;
  return keep(tensor.resolve_conj().resolve_neg().contiguous());
}

void* Buffers::output(const at::Tensor& tensor) {
  if (is_plain(tensor)) return keep(tensor);
  note(tensor.device());
  copies_.emplace_back(tensor, at::empty(tensor.sizes(), tensor.options()));
  return copies_.back().second.data_ptr();
}

void* Buffers::in_place(const at::Tensor& tensor) {
  if (is_plain(tensor)) return keep(tensor);
  note(tensor.device());
  const c10::NoGradGuard no_grad;
  at::Tensor copy = at::empty(tensor.sizes(), tensor.options());
  copy.copy_(tensor);
  copies_.emplace_back(tensor, std::move(copy));
  return copies_.back().second.data_ptr();
}

void Buffers::copy_back() {
  const c10::NoGradGuard no_grad;
  for (auto& [to, from] : copies_) {
    to.copy_(from);
    kept_.push_back(from);  // a GPU may read it later
  }
  copies_.clear();
}

void Buffers::finish_copies() {
  if (copies_.empty()) return;
  copy_back();
  if (!device_.is_cpu()) DeviceEnd(current_stream(device_)).await();
}

}  // namespace hymn_torch
