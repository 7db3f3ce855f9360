// The C API: hooks, and the buckets that they see.
#include <algorithm>

#include "hymn/gradient_hooks.hpp"
#include "training/c_api.hpp"

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace
using hymn::BufferView;
using hymn::Future;
using hymn::Work;
using hymn::training::CommHook;
using hymn::training::GradBucket;
using hymn::training::PowerSgdOptions;

namespace {

hymnResult_t give(const char* function, hymnCommHook_t* hook, auto&& make) {
  return guarded(function, [&] {
    *need(hook, "hook") = nullptr;
    *hook = new hymnCommHook{make()};
  });
}

CommHook inner_of(hymnCommHook_t inner) {
  return inner == nullptr ? hymn::training::all_reduce_hook() : inner->hook;
}

PowerSgdOptions power_sgd_options(const hymnPowerSgdOptions_t* options) {
  const hymnPowerSgdOptions_t given = read_options(options, "hymnPowerSgdOptions_t");
  PowerSgdOptions result;
  if (given.rank != 0) result.rank = given.rank;
  if (given.start_iteration != 0) result.start_iteration = given.start_iteration;
  if (given.min_compression_rate != 0) result.min_compression_rate = given.min_compression_rate;
  result.error_feedback = given.error_feedback >= 0;
  result.warm_start = given.warm_start >= 0;
  result.seed = given.seed;
  result.batched = given.batched != 0;
  return result;
}

Future<BufferView> at_once(const BufferView& buffer) {
  const hymn::Promise<BufferView> promise;
  promise.set_value(buffer);
  return promise.get_future();
}

/// A hook of C's.
class Hooked {
 public:
  Hooked(hymnCommHookStart_t start, hymnCommHookThen_t then, void* user)
      : start_(start), then_(then), user_(user) {}

  Future<BufferView> operator()(const GradBucket& bucket) const {
    hymnGradBucket handle{bucket};
    hymnWork_t work = nullptr;
    const hymnResult_t code = start_(&handle, &work, user_);
    const std::unique_ptr<hymnWork, hymnResult_t (*)(hymnWork_t)> owned(work, &hymnWorkFree);
    require_success("hook", code);
    if (work == nullptr) return complete(bucket), at_once(bucket.buffer());
    // By value: the hook may be gone when the work has completed.
    return hymn::work_of(work).then([hook = *this, bucket](const std::vector<BufferView>&) {
      hook.complete(bucket);
      return bucket.buffer();
    });
  }

 private:
  void complete(const GradBucket& bucket) const {
    if (then_ == nullptr) return;
    hymnGradBucket handle{bucket};
    require_success("hook", then_(&handle, user_));
  }

  hymnCommHookStart_t start_;
  hymnCommHookThen_t then_;
  void* user_;
};

}  // namespace

hymnResult_t hymnCommHookAllReduce(hymnCommHook_t* hook) {
  return give(__func__, hook, [] { return hymn::training::all_reduce_hook(); });
}

hymnResult_t hymnCommHookFp16Compress(hymnCommHook_t inner, hymnCommHook_t* hook) {
  return give(__func__, hook, [&] { return hymn::training::fp16_compress(inner_of(inner)); });
}

hymnResult_t hymnCommHookBf16Compress(hymnCommHook_t inner, hymnCommHook_t* hook) {
  return give(__func__, hook, [&] { return hymn::training::bf16_compress(inner_of(inner)); });
}

hymnResult_t hymnCommHookPowerSgd(const hymnPowerSgdOptions_t* options, hymnCommHook_t* hook) {
  return give(__func__, hook,
              [&] { return hymn::training::power_sgd(power_sgd_options(options)); });
}

hymnResult_t hymnCommHookCreate(hymnCommHookStart_t start, hymnCommHookThen_t then, void* user,
                                hymnCommHook_t* hook) {
  return give(__func__, hook, [&] {
    if (start == nullptr) throw_null("start");
    return Hooked(start, then, user);
  });
}

hymnResult_t hymnCommHookFree(hymnCommHook_t hook) {
  return guarded(__func__, [&] { const std::unique_ptr<hymnCommHook> handle(need(hook, "hook")); });
}

hymnResult_t hymnGradBucketIndex(hymnGradBucket_t bucket, size_t* index, int* is_last) {
  return guarded(__func__, [&] {
    const GradBucket& given = need(bucket, "bucket")->bucket;
    if (index != nullptr) *index = given.index();
    if (is_last != nullptr) *is_last = given.is_last() ? 1 : 0;
  });
}

hymnResult_t hymnGradBucketBuffer(hymnGradBucket_t bucket, void** data, size_t* count,
                                  hymnDataType_t* dtype) {
  return guarded(__func__, [&] {
    const BufferView buffer = need(bucket, "bucket")->bucket.buffer();
    if (data != nullptr) *data = buffer.data;
    if (count != nullptr) *count = buffer.count;
    if (dtype != nullptr) *dtype = hymn::c_type_of(buffer);
  });
}

hymnResult_t hymnGradBucketParameters(hymnGradBucket_t bucket, size_t* parameters, size_t capacity,
                                      size_t* n) {
  return guarded(__func__, [&] {
    const std::vector<std::size_t> all = need(bucket, "bucket")->bucket.parameters();
    if (capacity > 0) need(parameters, "parameters");
    for (std::size_t i = 0; i < std::min(capacity, all.size()); ++i) parameters[i] = all[i];
    if (n != nullptr) *n = all.size();
  });
}

hymnResult_t hymnGradBucketStream(hymnGradBucket_t bucket, void** stream) {
  return guarded(__func__,
                 [&] { *need(stream, "stream") = need(bucket, "bucket")->bucket.stream(); });
}

hymnResult_t hymnGradBucketDivisor(hymnGradBucket_t bucket, int* divisor) {
  return guarded(__func__,
                 [&] { *need(divisor, "divisor") = need(bucket, "bucket")->bucket.divisor(); });
}

hymnResult_t hymnGradBucketGroup(hymnGradBucket_t bucket, hymnGroup_t* group) {
  return guarded(__func__, [&] {
    need(group, "group");
    auto& kept = need(bucket, "bucket")->group;
    if (!kept) kept.reset(hymn::handle_of(bucket->bucket.group()));
    *group = kept.get();
  });
}

hymnResult_t hymnGradBucketAverage(hymnGradBucket_t bucket, hymnWork_t* work) {
  return guarded(__func__, [&] {
    *need(work, "work") = nullptr;
    const GradBucket& given = need(bucket, "bucket")->bucket;
    *work = hymn::handle_of(given.average(given.buffer()));
  });
}
