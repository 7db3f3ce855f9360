// Functional collectives of libtorch's tensors, out of place, in the memory of the host:
// docs/functional.md. The plain ones carry no gradient; those in …_autograd are functions of
// torch's autograd, whose backward pass is another collective, made by all ranks. They have ended
// when they return. Errors: hymn::torch::Error.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/csrc/autograd/custom_function.h>
#include <torch/custom_class.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "hymn/torch_collectives.hpp"
#include "hymn/torch_group.hpp"
#include "hymn/torch_tensors.hpp"

namespace hymn::torch::functional {

/// Of dimension 0, how many indices go to, or come from, each rank; empty: equal parts.
using Splits = std::vector<std::int64_t>;

namespace detail {

inline std::vector<std::size_t> counts_of(const Splits& splits, const at::Tensor& tensor,
                                          const Group& group) {
  if (splits.size() != static_cast<std::size_t>(group.size()))
    throw Error(hymnUsageError, std::to_string(splits.size()) + " split sizes for " +
                                    std::to_string(group.size()) + " ranks: give one for each");
  std::int64_t row = 1;
  for (std::int64_t i = 1; i < tensor.dim(); ++i) row *= tensor.size(i);
  std::vector<std::size_t> counts;
  for (const std::int64_t size : splits) {
    if (size < 0) throw Error(hymnUsageError, "split sizes are not below 0");
    counts.push_back(static_cast<std::size_t>(size * row));
  }
  return counts;
}

inline std::int64_t sum_of(const Splits& splits) {
  std::int64_t sum = 0;
  for (const std::int64_t size : splits) sum += size;
  return sum;
}

inline void require_dimensions(const at::Tensor& tensor) {
  require_host_tensor(tensor, "the tensor");
  if (tensor.dim() == 0)
    throw Error(hymnUsageError, "a tensor without dimensions has no parts: unsqueeze it");
}

inline void require_parts(const at::Tensor& tensor, std::int64_t dimension, const Group& group) {
  if (tensor.size(dimension) % group.size() != 0)
    throw Error(hymnUsageError, "dimension " + std::to_string(dimension) + " has " +
                                    std::to_string(tensor.size(dimension)) + " indices, not " +
                                    std::to_string(group.size()) + " equal parts of them");
}

}  // namespace detail

/// The reduction of the tensors of all ranks.
inline at::Tensor all_reduce(const at::Tensor& tensor, const Group& group, hymnOp_t op = hymnSum) {
  require_host_tensor(tensor, "the tensor");
  const c10::NoGradGuard no_grad;
  at::Tensor result = tensor.detach().clone();
  hymn::torch::all_reduce(result, group, op);
  return result;
}

/// The root's; `root` is a global rank.
inline at::Tensor broadcast(const at::Tensor& tensor, int root, const Group& group) {
  require_host_tensor(tensor, "the tensor");
  const c10::NoGradGuard no_grad;
  at::Tensor result = tensor.detach().clone();
  hymn::torch::broadcast(result, root, group);
  return result;
}

/// The tensors of all ranks, one after the other in that dimension.
inline at::Tensor all_gather_tensor(const at::Tensor& tensor, std::int64_t dimension,
                                    const Group& group) {
  detail::require_dimensions(tensor);
  const c10::NoGradGuard no_grad;
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes.insert(sizes.begin(), group.size());
  const at::Tensor parts = at::empty(sizes, tensor.options());
  hymn::torch::all_gather(parts, tensor.detach(), group);
  return at::cat(parts.unbind(0), dimension);
}

/// Of the reduction, this rank's part in that dimension.
inline at::Tensor reduce_scatter_tensor(const at::Tensor& tensor, std::int64_t dimension,
                                        const Group& group, hymnOp_t op = hymnSum) {
  detail::require_dimensions(tensor);
  detail::require_parts(tensor, dimension, group);
  const c10::NoGradGuard no_grad;
  const at::Tensor parts = at::stack(tensor.detach().chunk(group.size(), dimension));
  const at::Tensor result = at::empty(parts.sizes().slice(1), tensor.options());
  hymn::torch::reduce_scatter(result, parts, group, op);
  return result;
}

/// Of dimension 0, input_splits[j] indices go to rank j of the group, and output_splits[i] come
/// from rank i.
inline at::Tensor all_to_all_single(const at::Tensor& tensor, const Splits& output_splits,
                                    const Splits& input_splits, const Group& group) {
  detail::require_dimensions(tensor);
  if (output_splits.empty() != input_splits.empty())
    throw Error(hymnUsageError, "only one side has split sizes: give both, or none");
  const c10::NoGradGuard no_grad;
  const at::Tensor sends = tensor.detach().contiguous();
  if (input_splits.empty()) {
    detail::require_parts(tensor, 0, group);
    const at::Tensor result = at::empty_like(sends);
    hymn::torch::all_to_all(result, sends, group);
    return result;
  }
  if (detail::sum_of(input_splits) != tensor.size(0))
    throw Error(hymnUsageError, "the input's split sizes add up to " +
                                    std::to_string(detail::sum_of(input_splits)) + ", not to " +
                                    std::to_string(tensor.size(0)));
  const std::vector<std::size_t> sent = detail::counts_of(input_splits, tensor, group);
  const std::vector<std::size_t> received = detail::counts_of(output_splits, tensor, group);
  std::vector<std::int64_t> sizes = tensor.sizes().vec();
  sizes[0] = detail::sum_of(output_splits);
  const at::Tensor result = at::empty(sizes, tensor.options());
  hymn::torch::check(hymnAllToAllv(sends.data_ptr(), sent.data(), result.data_ptr(),
                                   received.data(), data_type_of(sends.scalar_type()),
                                   group.handle(), nullptr));
  return result;
}

namespace detail {

using Call = std::function<at::Tensor(const at::Tensor&)>;

/// What the backward pass calls, where autograd can hold it.
struct HeldCall : ::torch::CustomClassHolder {
  explicit HeldCall(Call call_) : call(std::move(call_)) {}
  Call call;
};

struct Collective : ::torch::autograd::Function<Collective> {
  static at::Tensor forward(::torch::autograd::AutogradContext* context, const at::Tensor& tensor,
                            const Call& call, const Call& vjp) {
    context->saved_data["vjp"] = c10::IValue::make_capsule(c10::make_intrusive<HeldCall>(vjp));
    return call(tensor);
  }
  static ::torch::autograd::variable_list backward(::torch::autograd::AutogradContext* context,
                                                   ::torch::autograd::variable_list gradients) {
    const auto held =
        c10::static_intrusive_pointer_cast<HeldCall>(context->saved_data["vjp"].toCapsule());
    return {held->call(gradients[0]), at::Tensor(), at::Tensor()};
  }
};

}  // namespace detail

/// Its gradient is exchanged back.
inline at::Tensor all_to_all_single_autograd(const at::Tensor& tensor, const Splits& output_splits,
                                             const Splits& input_splits, const Group& group) {
  return detail::Collective::apply(
      tensor, detail::Call([=](const at::Tensor& input) {
        return all_to_all_single(input, output_splits, input_splits, group);
      }),
      detail::Call([=](const at::Tensor& gradient) {
        return all_to_all_single(gradient, input_splits, output_splits, group);
      }));
}

/// Its gradient is the sum of those of all ranks, each rank's part.
inline at::Tensor all_gather_tensor_autograd(const at::Tensor& tensor, std::int64_t dimension,
                                             const Group& group) {
  return detail::Collective::apply(tensor, detail::Call([=](const at::Tensor& input) {
                                     return all_gather_tensor(input, dimension, group);
                                   }),
                                   detail::Call([=](const at::Tensor& gradient) {
                                     return reduce_scatter_tensor(gradient, dimension, group);
                                   }));
}

/// Of the sum. Its gradient is gathered.
inline at::Tensor reduce_scatter_tensor_autograd(const at::Tensor& tensor, std::int64_t dimension,
                                                 const Group& group) {
  return detail::Collective::apply(tensor, detail::Call([=](const at::Tensor& input) {
                                     return reduce_scatter_tensor(input, dimension, group);
                                   }),
                                   detail::Call([=](const at::Tensor& gradient) {
                                     return all_gather_tensor(gradient, dimension, group);
                                   }));
}

}  // namespace hymn::torch::functional
