// The backend "hymn": all_reduce of sparse tensors in coordinate form.
//
// Sizes are known only when the ranks have met, so the call is over when it returns.
#include <hymn/hymn_sparse.h>

#include <cstring>

#include "backend.hpp"
#include "errors.hpp"

namespace hymn_torch {
namespace {

/// What comes of the reduction, freed at the end of the scope.
class Result {
 public:
  Result() = default;
  Result(const Result&) = delete;
  Result& operator=(const Result&) = delete;
  ~Result() {
    if (handle_ != nullptr) hymnSparseTensorFree(handle_);
  }

  hymnSparseTensor_t* place() { return &handle_; }
  hymnSparse_t view() const {
    hymnSparse_t view{};
    check(hymnSparseTensorView(handle_, &view));
    return view;
  }

 private:
  hymnSparseTensor_t handle_ = nullptr;
};

/// A tensor of torch's with a copy of the entries, each index once.
at::Tensor tensor_of(const hymnSparse_t& view, const at::Tensor& like) {
  const auto entries = static_cast<int64_t>(view.entries);
  const auto rows = static_cast<int64_t>(view.sparse_dimensions);
  std::vector<int64_t> block{entries};
  for (std::size_t i = view.sparse_dimensions; i < view.dimensions; ++i)
    block.push_back(view.shape[i]);
  at::Tensor indices = at::empty({rows, entries}, at::kLong);
  at::Tensor values = at::empty(block, like.options().layout(at::kStrided));
  if (entries > 0) {
    std::memcpy(indices.data_ptr(), view.indices, indices.nbytes());
    std::memcpy(values.data_ptr(), view.values, values.nbytes());
  }
  at::Tensor result = at::_sparse_coo_tensor_unsafe(indices, values, like.sizes());
  return result._coalesced_(true);
}

}  // namespace

Backend::WorkPtr Backend::allreduce_sparse(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) {
  Call call(*this, c10d::OpType::_ALLREDUCE_SPARSE, "all_reduce of sparse tensors",
            "hymn:all_reduce_sparse", &tensors, options.timeout);
  at::Tensor& tensor = only(tensors, call.name());
  if (tensor.layout() != at::kSparse || !tensor.device().is_cpu())
    throw_not_implemented(
        "hymn: all_reduce of sparse tensors takes those in coordinate form (COO) "
        "in the memory of the host");
  const c10::NoGradGuard no_grad;
  const at::Tensor indices = tensor._indices().contiguous();
  const at::Tensor values = tensor._values().contiguous();
  hymnSparse_t mine{};
  mine.shape = tensor.sizes().data();
  mine.dimensions = static_cast<std::size_t>(tensor.dim());
  mine.sparse_dimensions = static_cast<std::size_t>(tensor.sparse_dim());
  mine.indices = indices.const_data_ptr<int64_t>();
  mine.values = values.const_data_ptr();
  mine.entries = static_cast<std::size_t>(tensor._nnz());
  mine.dtype = reduced_type(tensor.scalar_type(), call.name());
  Result sum;
  check(hymnAllReduceSparse(&mine, reduction(options.reduceOp, call.name()), nullptr, 0,
                            call.group(), sum.place()));
  tensor.copy_(tensor_of(sum.view(), tensor));
  call.operation().add_result(tensor);
  return call.work();
}

}  // namespace hymn_torch
