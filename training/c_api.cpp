// The C API: reducers.
#include "training/c_api.hpp"

#include <span>
#include <vector>

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::BufferView;
using hymn::training::GradientReducer;
using hymn::training::Parameter;
using hymn::training::ReducerOptions;

namespace {

BufferView view(const hymnParameter_t& given, void* data) {
  std::size_t count = 1;
  for (std::size_t i = 0; i < given.dimensions; ++i) {
    const std::int64_t extent = need(given.shape, "parameter->shape")[i];
    if (extent < 0 || __builtin_mul_overflow(count, static_cast<std::size_t>(extent), &count))
      throw hymn::UsageError("parameter->shape has too many elements, or a negative extent");
  }
  BufferView view = hymn::view_of_c(data, count, given.dtype);
  if (given.dimensions == 0) return view;
  view.shape = {given.shape, given.dimensions};
  if (given.strides != nullptr) view.strides = {given.strides, given.dimensions};
  return view;
}

std::vector<Parameter> parameters_of(const hymnParameter_t* given, std::size_t n) {
  if (n > 0) need(given, "parameters");
  std::vector<Parameter> parameters;
  for (const hymnParameter_t& one : read_array(given, n, "hymnParameter_t", "parameter"))
    parameters.push_back({.name = one.name == nullptr ? "" : one.name,
                          .data = view(one, one.data),
                          .gradient = view(one, one.gradient),
                          .sparse_dims = one.sparse_dimensions});
  return parameters;
}

ReducerOptions options_of(const hymnReducerOptions_t* options) {
  const hymnReducerOptions_t given = read_options(options, "hymnReducerOptions_t");
  ReducerOptions result;
  if (given.first_bucket_bytes != 0) result.first_bucket_bytes = given.first_bucket_bytes;
  if (given.bucket_bytes != 0) result.bucket_bytes = given.bucket_bytes;
  result.gradient_as_bucket_view = given.gradient_as_bucket_view != 0;
  result.find_unused_parameters = given.find_unused_parameters != 0;
  result.static_graph = given.static_graph != 0;
  result.broadcast_parameters = given.broadcast_parameters >= 0;
  if (given.hook != nullptr) result.hook = given.hook->hook;
  for (const Parameter& each : parameters_of(given.buffers, given.buffer_count))
    result.buffers.push_back(each.data);
  if (given.stream != nullptr)
    result.stream = [stream = given.stream, user = given.stream_user](int gpu) {
      return stream(gpu, user);
    };
  return result;
}

GradientReducer& behind(hymnGradientReducer_t handle) { return *need(handle, "reducer")->reducer; }

}  // namespace

hymnResult_t hymnGradientReducerCreate(hymnGroup_t group, const hymnParameter_t* parameters,
                                       size_t n, const hymnReducerOptions_t* options,
                                       hymnGradientReducer_t* reducer) {
  return guarded(__func__, [&] {
    *need(reducer, "reducer") = nullptr;
    auto handle = std::make_unique<hymnGradientReducer>();
    handle->reducer = std::make_unique<GradientReducer>(
        hymn::group_of(group), parameters_of(parameters, n), options_of(options));
    *reducer = handle.release();
  });
}

hymnResult_t hymnGradientReducerFree(hymnGradientReducer_t reducer) {
  return guarded(__func__, [&] {
    const std::unique_ptr<hymnGradientReducer> handle(need(reducer, "reducer"));
  });
}

hymnResult_t hymnGradientReducerPrepare(hymnGradientReducer_t reducer) {
  return guarded(__func__, [&] { behind(reducer).prepare(); });
}

hymnResult_t hymnGradientReducerPrepareUsed(hymnGradientReducer_t reducer, const size_t* used,
                                            size_t n) {
  return guarded(__func__, [&] {
    if (n > 0) need(used, "used");
    behind(reducer).prepare(std::span(used, n));
  });
}

hymnResult_t hymnGradientReducerReady(hymnGradientReducer_t reducer, size_t parameter,
                                      int* is_complete) {
  return guarded(__func__, [&] {
    behind(reducer).ready(parameter);
    if (is_complete != nullptr) *is_complete = behind(reducer).is_complete() ? 1 : 0;
  });
}

hymnResult_t hymnGradientReducerReadySparse(hymnGradientReducer_t reducer, size_t parameter,
                                            const hymnSparse_t* gradient, int* is_complete) {
  return guarded(__func__, [&] {
    behind(reducer).ready(parameter, hymn::view_of_c(*need(gradient, "gradient")));
    if (is_complete != nullptr) *is_complete = behind(reducer).is_complete() ? 1 : 0;
  });
}

hymnResult_t hymnGradientReducerSetSparseMetadata(hymnGradientReducer_t reducer, size_t parameter,
                                                  const int64_t* indices, size_t n) {
  return guarded(__func__, [&] {
    if (n != 0) need(indices, "indices");
    behind(reducer).set_sparse_metadata(parameter, std::span(indices, n));
  });
}

hymnResult_t hymnGradientReducerSparseGradient(hymnGradientReducer_t reducer, size_t parameter,
                                               hymnSparse_t* gradient) {
  return guarded(__func__, [&] {
    *need(gradient, "gradient") = hymn::c_view_of(behind(reducer).sparse_gradient(parameter));
  });
}

hymnResult_t hymnGradientReducerFinish(hymnGradientReducer_t reducer) {
  return guarded(__func__, [&] { behind(reducer).finish(); });
}

hymnResult_t hymnGradientReducerGradient(hymnGradientReducer_t reducer, size_t parameter,
                                         void** gradient, hymnGradMemory_t* keep) {
  return guarded(__func__, [&] {
    *need(gradient, "gradient") = behind(reducer).gradient(parameter).data;
    if (keep == nullptr) return;
    const std::shared_ptr<void> owner = behind(reducer).gradient_owner(parameter);
    *keep = owner ? new hymnGradMemory{owner} : nullptr;
  });
}

hymnResult_t hymnGradMemoryFree(hymnGradMemory_t keep) {
  return guarded(__func__,
                 [&] { const std::unique_ptr<hymnGradMemory> handle(need(keep, "keep")); });
}

hymnResult_t hymnGradientReducerIsUnused(hymnGradientReducer_t reducer, size_t parameter,
                                         int* is_unused) {
  return guarded(__func__, [&] {
    *need(is_unused, "is_unused") = behind(reducer).is_unused(parameter) ? 1 : 0;
  });
}

hymnResult_t hymnGradientReducerBucketCount(hymnGradientReducer_t reducer, size_t* n) {
  return guarded(__func__, [&] { *need(n, "n") = behind(reducer).buckets().size(); });
}

hymnResult_t hymnGradientReducerBucketOf(hymnGradientReducer_t reducer, size_t parameter,
                                         size_t* bucket) {
  return guarded(__func__, [&] {
    need(bucket, "bucket");
    (void)behind(reducer).gradient(parameter);  // refuses one that there is not
    const auto buckets = behind(reducer).buckets();
    for (std::size_t i = 0; i < buckets.size(); ++i)
      for (const std::size_t each : buckets[i])
        if (each == parameter) *bucket = i;
  });
}

hymnResult_t hymnGradientReducerBeginNoSync(hymnGradientReducer_t reducer) {
  return guarded(__func__, [&] {
    GradientReducer& given = behind(reducer);
    if (reducer->no_sync) throw hymn::UsageError("no_sync has begun already");
    reducer->no_sync.emplace(given);
  });
}

hymnResult_t hymnGradientReducerEndNoSync(hymnGradientReducer_t reducer) {
  return guarded(__func__, [&] {
    if (!need(reducer, "reducer")->no_sync) throw hymn::UsageError("no_sync has not begun");
    reducer->no_sync.reset();
  });
}

hymnResult_t hymnGradientReducerJoinable(hymnGradientReducer_t reducer, hymnJoinable_t* joinable) {
  return guarded(__func__,
                 [&] { *need(joinable, "joinable") = hymn::joinable_of(behind(reducer)); });
}
