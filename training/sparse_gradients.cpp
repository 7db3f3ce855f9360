#include "training/sparse_gradients.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "hymn/half.hpp"

namespace hymn::training::detail {
namespace {

SparseView without_entries(const Parameter& parameter) {
  return {.shape = parameter.data.shape,
          .indices = {},
          .values = ConstBufferView(nullptr, 0, parameter.data.dtype),
          .sparse_dims = parameter.sparse_dims};
}

template <class T>
void divide(std::vector<std::byte>& bytes, int divisor) {
  auto* const values = reinterpret_cast<T*>(bytes.data());
  for (std::size_t i = 0; i < bytes.size() / sizeof(T); ++i) values[i] /= static_cast<T>(divisor);
}
template <class Half>
void divide_halves(std::vector<std::byte>& bytes, int divisor) {
  auto* const values = reinterpret_cast<Half*>(bytes.data());
  for (std::size_t i = 0; i < bytes.size() / sizeof(Half); ++i)
    values[i] = Half(static_cast<float>(values[i]) / static_cast<float>(divisor));
}

/// Of a floating-point or complex type.
void divide(SparseTensor& tensor, int divisor) {
  if (tensor.dtype == DataType::float16) return divide_halves<float16>(tensor.values, divisor);
  if (tensor.dtype == DataType::bfloat16) return divide_halves<bfloat16>(tensor.values, divisor);
  const bool is_wide = tensor.dtype == DataType::float64 || tensor.dtype == DataType::complex128;
  is_wide ? divide<double>(tensor.values, divisor) : divide<float>(tensor.values, divisor);
}

}  // namespace

SparseGradients::SparseGradients(const Model& model) {
  for (std::size_t i = 0; i < model.size(); ++i)
    if (model.is_sparse(i)) {
      const SparseView nothing = without_entries(model[i]);
      all_.emplace(i, One{nothing, nothing, {}, {}});
    }
}

void SparseGradients::give(const Model& model, std::size_t parameter, const SparseView& gradient) {
  One& one = all_.at(parameter);
  const SparseView& expected = one.nothing;
  if (gradient.sparse_dims == expected.sparse_dims &&
      gradient.values.dtype == expected.values.dtype &&
      std::ranges::equal(gradient.shape, expected.shape)) {
    one.given = gradient;
    return;
  }
  throw UsageError(
      fmt::format("the gradient of {} is of {} with sizes {}, {} of them sparse, and the "
                  "parameter of {} with sizes {}, {} of them sparse",
                  model.name_of(parameter), to_string(gradient.values.dtype),
                  list_text(gradient.shape), gradient.sparse_dims, to_string(expected.values.dtype),
                  list_text(expected.shape), expected.sparse_dims),
      {.operation = "GradientReducer::ready()",
       .remedy = "give a gradient of the type and the sizes of the parameter"});
}

void SparseGradients::reduce(const Averaging& averaging) {
  // What is divided after the sum has been rounded once more: only where ranks have run out.
  const ProcessGroup& group = averaging.places->group();
  const bool are_all = averaging.divisor == group.size();
  SparseOptions options{.reduction = are_all ? ReduceOp::avg : ReduceOp::sum};
  std::vector<Work> works;
  for (auto& [parameter, one] : all_) {
    options.declared = one.declared;
    works.push_back(all_reduce_sparse_async(group, one.given, one.average, options));
  }
  wait_all(works);
  for (auto& [parameter, one] : all_) {
    if (!are_all) divide(one.average, averaging.divisor);
    one.given = one.nothing;
  }
}

}  // namespace hymn::training::detail
