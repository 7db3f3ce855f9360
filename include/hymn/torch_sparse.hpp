// Sparse gradients of libtorch as a gradient reducer of hymn's takes and gives them.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "hymn/hymn_training.h"
#include "hymn/torch_error.hpp"
#include "hymn/torch_pass.hpp"
#include "hymn/torch_tensors.hpp"

namespace hymn::torch::detail {

/// Of a gradient with rows as entries, which must stay.
inline hymnSparse_t sparse_view(const at::Tensor& coalesced) {
  const at::Tensor indices = coalesced.indices();
  const at::Tensor values = coalesced.values();
  return {coalesced.sizes().data(),
          coalesced.sizes().size(),
          static_cast<std::size_t>(coalesced.sparse_dim()),
          indices.data_ptr<std::int64_t>(),
          values.data_ptr(),
          static_cast<std::size_t>(values.size(0)),
          data_type_of(values.scalar_type())};
}

/// Its indices and values in memory of their own.
inline at::Tensor coalesced_tensor(const hymnSparse_t& view, const at::Tensor& like) {
  const auto entries = static_cast<std::int64_t>(view.entries);
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes[0] = entries;
  // Without entries there may be no memory to look at.
  at::Tensor indices = at::empty({1, entries}, at::kLong);
  at::Tensor values = at::empty(sizes, like.options().requires_grad(false));
  if (entries != 0) {
    std::memcpy(indices.data_ptr(), view.indices, indices.nbytes());
    std::memcpy(values.data_ptr(), view.values, values.nbytes());
  }
  return at::_sparse_coo_tensor_unsafe(indices, values, like.sizes())._coalesced_(true);
}

/// What autograd has accumulated, each row once, and both parts without gaps.
inline at::Tensor coalesced_gradient(const at::Tensor& variable) {
  const at::Tensor& gradient = gradient_of(variable);
  if (!gradient.defined()) return at::zeros_like(variable).to_sparse(1);
  const at::Tensor sparse = (gradient.is_sparse() ? gradient : gradient.to_sparse(1)).coalesce();
  return at::_sparse_coo_tensor_unsafe(sparse.indices().contiguous(), sparse.values().contiguous(),
                                       sparse.sizes())
      ._coalesced_(true);
}

/// Those of an iteration.
class SparseGradients {
 public:
  /// The gradient of this parameter is there.
  hymnResult_t give(hymnGradientReducer_t reducer, std::size_t parameter,
                    const at::Tensor& variable, int* is_complete) {
    at::Tensor& kept = given_[parameter] = coalesced_gradient(variable);
    const hymnSparse_t view = sparse_view(kept);
    return hymnGradientReducerReadySparse(reducer, parameter, &view, is_complete);
  }
  /// Its average, once reduced.
  at::Tensor take(hymnGradientReducer_t reducer, std::size_t parameter,
                  const at::Tensor& variable) {
    given_.erase(parameter);
    hymnSparse_t average{};
    check_own(hymnGradientReducerSparseGradient(reducer, parameter, &average));
    return coalesced_tensor(average, variable);
  }

 private:
  std::unordered_map<std::size_t, at::Tensor> given_;  ///< the reducer looks at them until it ends
};

}  // namespace hymn::torch::detail
