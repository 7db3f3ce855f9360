// Hooks of DistributedDataParallel: what reduces a bucket of gradients in place of the average
// (docs/training.md).
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/types.h>

#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <type_traits>
#include <utility>
#include <vector>

#include "hymn/hymn_training.h"
#include "hymn/torch_collectives.hpp"
#include "hymn/torch_error.hpp"
#include "hymn/torch_group.hpp"
#include "hymn/torch_tensors.hpp"

namespace hymn::torch {

/// Gradients of one type that are reduced together, as a hook sees them: there for its call.
class GradBucket {
 public:
  explicit GradBucket(hymnGradBucket_t bucket) : bucket_(bucket) {}

  /// From 0, in the order in which buckets are reduced.
  std::size_t index() const { return place().first; }
  bool is_last() const { return place().second != 0; }
  /// All gradients of it, one after the other: no copy.
  at::Tensor buffer() const {
    void* data = nullptr;
    std::size_t count = 0;
    hymnDataType_t dtype = hymnFloat32;
    hymn::torch::check(hymnGradBucketBuffer(bucket_, &data, &count, &dtype));
    return at::from_blob(data, {static_cast<std::int64_t>(count)}, scalar_type_of(dtype));
  }
  /// Which parameters these are of, in the order in which the module names those that it trains.
  std::vector<std::size_t> parameters() const {
    std::size_t n = 0;
    hymn::torch::check(hymnGradBucketParameters(bucket_, nullptr, 0, &n));
    std::vector<std::size_t> parameters(n);
    hymn::torch::check(hymnGradBucketParameters(bucket_, parameters.data(), n, nullptr));
    return parameters;
  }
  /// Starts the average of the buffer over the ranks, in place: what is done without a hook.
  Work average() const {
    hymnWork_t work = nullptr;
    detail::check_own(hymnGradBucketAverage(bucket_, &work));
    const at::Tensor all = buffer();
    return {work, detail::Operands(all, all, false)};
  }
  /// The group, for the call.
  Group group() const {
    hymnGroup_t group = nullptr;
    hymn::torch::check(hymnGradBucketGroup(bucket_, &group));
    return group;
  }
  /// How many ranks an average is over: in a join those that count.
  int divisor() const {
    int divisor = 0;
    hymn::torch::check(hymnGradBucketDivisor(bucket_, &divisor));
    return divisor;
  }
  hymnGradBucket_t handle() const { return bucket_; }

 private:
  std::pair<std::size_t, int> place() const {
    std::pair<std::size_t, int> place{};
    hymn::torch::check(hymnGradBucketIndex(bucket_, &place.first, &place.second));
    return place;
  }
  static at::ScalarType scalar_type_of(hymnDataType_t dtype) {
    for (const auto type :
         {at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble})
      if (data_type_of(type) == dtype) return type;
    throw Error(hymnUnsupportedError, "libtorch has no tensors of a bucket's type");
  }

  hymnGradBucket_t bucket_;
};

namespace detail {

/// A hook that a program has written.
struct HookFunctions {
  std::function<Work(const GradBucket&)> start;
  std::function<void(const GradBucket&)> after;                  ///< may be empty
  std::mutex mutex{};                                            // works complete on any thread
  std::map<const void*, std::unique_ptr<Operands>> in_flight{};  ///< by a bucket's memory
  std::exception_ptr error{};

  HookFunctions(std::function<Work(const GradBucket&)> start_,
                std::function<void(const GradBucket&)> after_)
      : start(std::move(start_)), after(std::move(after_)) {}
  HookFunctions(const HookFunctions&) = delete;
  HookFunctions& operator=(const HookFunctions&) = delete;
  ~HookFunctions() {
    // Of what has failed: MPI may go on writing there.
    for (auto& [bucket, operands] : in_flight) static_cast<void>(operands.release());
  }

  static hymnResult_t begin(hymnGradBucket_t handle, hymnWork_t* work, void* user) {
    HookFunctions& self = *static_cast<HookFunctions*>(user);
    return self.guarded([&] {
      const GradBucket bucket(handle);
      auto [started, operands] = self.start(bucket).release();
      *work = started;
      const std::lock_guard lock(self.mutex);
      self.in_flight[bucket.buffer().data_ptr()] = std::move(operands);
    });
  }
  static hymnResult_t end(hymnGradBucket_t handle, void* user) {
    HookFunctions& self = *static_cast<HookFunctions*>(user);
    return self.guarded([&] {
      const GradBucket bucket(handle);
      if (const auto operands = self.take(bucket.buffer().data_ptr())) operands->finish();
      if (self.after) self.after(bucket);
    });
  }
  /// What one of the functions has thrown.
  void rethrow() {
    const std::lock_guard lock(mutex);
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
  }

 private:
  std::unique_ptr<Operands> take(const void* bucket) {
    const std::lock_guard lock(mutex);
    auto node = in_flight.extract(bucket);
    return node.empty() ? nullptr : std::move(node.mapped());
  }
  template <class Do>
  hymnResult_t guarded(Do act) noexcept {
    const c10::NoGradGuard no_grad;
    try {
      act();
      return hymnSuccess;
    } catch (const Error& failure) {
      return note(failure.code());
    } catch (...) {
      return note(hymnUsageError);
    }
  }
  hymnResult_t note(hymnResult_t code) {
    const std::lock_guard lock(mutex);
    if (!error) error = std::current_exception();
    return code;
  }
};

}  // namespace detail

/// Cheap to copy. All ranks give the same.
///
///     options.hook = CommHook::bf16_compress();
///     options.hook = CommHook([](const GradBucket& bucket) {
///       bucket.buffer().clamp_(-1, 1);
///       return bucket.average();
///     });
class CommHook {
 public:
  /// None: averages.
  CommHook() = default;
  /// The handle stays the caller's, who may free it when the wrapper is made.
  CommHook(hymnCommHook_t hook)  // NOLINT: it is one
      : hook_(hook, [](hymnCommHook_t) {}) {}
  /// `start` begins a collective that reduces the bucket, the same on all ranks, and returns its
  /// Work; `after` is called when that has completed, by any thread, and makes no collectives. What
  /// they throw is thrown in backward(), with the group given up.
  template <class Start>
    requires std::is_invocable_r_v<Work, Start, const GradBucket&>
  CommHook(Start start, std::function<void(const GradBucket&)> after = {})  // NOLINT: it is one
      : CommHook(std::make_shared<detail::HookFunctions>(std::move(start), std::move(after))) {}

  static CommHook all_reduce() { return CommHook(&hymnCommHookAllReduce); }
  /// float32 and float64 travel as 16 bits, by the other hook.
  static CommHook fp16_compress(const CommHook& inner = {}) {
    return compress(&hymnCommHookFp16Compress, inner);
  }
  static CommHook bf16_compress(const CommHook& inner = {}) {
    return compress(&hymnCommHookBf16Compress, inner);
  }
  /// It keeps what it has learnt: for one wrapper.
  static CommHook power_sgd(const hymnPowerSgdOptions_t& options = HYMN_POWER_SGD_OPTIONS_INIT) {
    return CommHook([&](hymnCommHook_t* hook) { return hymnCommHookPowerSgd(&options, hook); });
  }

  /// Null: none.
  hymnCommHook_t get() const { return hook_.get(); }
  /// What a function of the program's has thrown, if one has.
  void rethrow() const {
    if (functions_) functions_->rethrow();
  }

 private:
  template <class Create>
    requires std::is_invocable_r_v<hymnResult_t, Create, hymnCommHook_t*>
  explicit CommHook(Create create) {
    hymnCommHook_t hook = nullptr;
    detail::check_own(create(&hook));
    hook_.reset(hook, [](hymnCommHook_t handle) { hymnCommHookFree(handle); });
  }
  explicit CommHook(std::shared_ptr<detail::HookFunctions> functions)
      : CommHook([&](hymnCommHook_t* hook) {
          return hymnCommHookCreate(&detail::HookFunctions::begin, &detail::HookFunctions::end,
                                    functions.get(), hook);
        }) {
    functions_ = std::move(functions);
  }
  template <class Create>
  static CommHook compress(Create create, const CommHook& inner) {
    CommHook hook([&](hymnCommHook_t* made) { return create(inner.get(), made); });
    hook.functions_ = inner.functions_;
    return hook;
  }

  std::shared_ptr<std::remove_pointer_t<hymnCommHook_t>> hook_;
  std::shared_ptr<detail::HookFunctions> functions_;  ///< which the hook calls
};

}  // namespace hymn::torch
