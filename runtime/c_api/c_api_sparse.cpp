// The C API: sparse tensors.
#include "hymn/hymn_sparse.h"
#include "hymn/sparse.hpp"
#include "runtime/c_api/c_api.hpp"
#include "runtime/group/sparse_all_reduce.hpp"

struct hymnSparseTensor {
  hymn::SparseTensor tensor;
  hymnDataType_t dtype;
};

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace

namespace {

/// Too much to count stays too much: that is refused where all ranks hear of it.
std::size_t product(std::size_t a, std::size_t b) {
  std::size_t both = 0;
  return __builtin_mul_overflow(a, b, &both) ? SIZE_MAX : both;
}

}  // namespace

hymn::SparseView hymn::view_of_c(const hymnSparse_t& tensor) {
  const std::span shape(tensor.shape, tensor.shape == nullptr ? 0 : tensor.dimensions);
  std::size_t values = tensor.entries;
  for (std::size_t d = tensor.sparse_dimensions; d < shape.size(); ++d)
    values = product(values, static_cast<std::size_t>(shape[d]));
  return {.shape = shape,
          .indices = {tensor.indices, product(tensor.entries, tensor.sparse_dimensions)},
          .values = input(tensor.values, values, tensor.dtype),
          .sparse_dims = tensor.sparse_dimensions};
}

hymnSparse_t hymn::c_view_of(const SparseTensor& tensor) {
  return {.shape = tensor.shape.data(),
          .dimensions = tensor.shape.size(),
          .sparse_dimensions = tensor.sparse_dims,
          .indices = tensor.indices.data(),
          .values = tensor.values.data(),
          .entries = tensor.entries(),
          .dtype = c_api::c_type(tensor.dtype)};
}

namespace {

/// `reduce(view, options, handle)` reduces into the handle, which is given out when that has not
/// thrown.
template <class Reduce>
void reduce_into(hymnSparseTensor_t* result, const hymnSparse_t* tensor, hymnOp_t op,
                 const int64_t* declared, size_t rows, const Call& call, Reduce reduce) {
  *need(result, "result") = nullptr;
  const hymn::SparseView view = hymn::view_of_c(*need(tensor, "tensor"));
  auto handle = std::make_unique<hymnSparseTensor>();
  handle->dtype = tensor->dtype;
  reduce(view,
         hymn::SparseOptions{.reduction = reduce_op(op),
                             .declared = {declared, product(rows, view.sparse_dims)},
                             .timeout = call.options().timeout},
         handle->tensor);
  *result = handle.release();
}

}  // namespace

hymnResult_t hymnAllReduceSparse(const hymnSparse_t* tensor, hymnOp_t op, const int64_t* declared,
                                 size_t rows, hymnGroup_t group, hymnSparseTensor_t* result) {
  const Call call = blocking(__func__, group, nullptr);
  return guarded(call.function, [&] {
    reduce_into(result, tensor, op, declared, rows, call,
                [&](const auto& view, const auto& options, hymn::SparseTensor& reduced) {
                  reduced = hymn::detail::all_reduce_sparse(call.checked_group(), view, options,
                                                            call.site);
                });
  });
}

hymnResult_t hymnIAllReduceSparse(const hymnSparse_t* tensor, hymnOp_t op, const int64_t* declared,
                                  size_t rows, hymnGroup_t group, hymnSparseTensor_t* result,
                                  hymnWork_t* work) {
  const Call call = starting(__func__, group, nullptr, work);
  return guarded(call.function, [&] {
    *need(work, "work") = nullptr;
    reduce_into(result, tensor, op, declared, rows, call,
                [&](const auto& view, const auto& options, hymn::SparseTensor& reduced) {
                  call.hand_out([&] {
                    return hymn::detail::all_reduce_sparse_async(call.checked_group(), view,
                                                                 reduced, options, call.site);
                  });
                });
  });
}

hymnResult_t hymnSparseTensorView(hymnSparseTensor_t tensor, hymnSparse_t* view) {
  return guarded(__func__, [&] {
    *need(view, "view") = hymn::c_view_of(need(tensor, "tensor")->tensor);
    view->dtype = tensor->dtype;  // of one that is empty, too
  });
}

hymnResult_t hymnSparseTensorFree(hymnSparseTensor_t tensor) {
  return guarded(__func__, [&] { delete need(tensor, "tensor"); });
}
