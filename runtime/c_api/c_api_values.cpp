// The C API: types of values, and reductions of the program's own.
#include <fmt/format.h>

#include <map>
#include <mutex>

#include "runtime/c_api/c_api.hpp"

namespace hymn::c_api {
namespace {

/// What hymnOpCreate has made and hymnOpFree has not freed.
class CustomOps {
 public:
  hymnOp_t add(const CustomReduction& custom) {
    const std::lock_guard lock(mutex_);
    made_.emplace(next_, custom);
    return next_++;
  }
  /// Null: there is none. Its place stays the same until it is freed.
  const CustomReduction* find(hymnOp_t op) {
    const std::lock_guard lock(mutex_);
    const auto found = made_.find(op);
    return found == made_.end() ? nullptr : &found->second;
  }
  void free(hymnOp_t op) {
    const std::lock_guard lock(mutex_);
    if (made_.erase(op) == 0)
      throw UsageError(fmt::format("{} is no operation that lives", op),
                       {.remedy = "free what hymnOpCreate has made, once"});
  }

 private:
  /// Far from the constants, and from what is passed by mistake; no factor has these bits.
  static constexpr hymnOp_t first = hymnOp_t{1} << 40;

  std::mutex mutex_;  // guards what follows
  std::map<hymnOp_t, CustomReduction> made_;
  hymnOp_t next_ = first;
};

CustomOps& custom_ops() {
  static CustomOps ops;
  return ops;
}

}  // namespace

const CustomReduction* custom_reduction(hymnOp_t op) { return custom_ops().find(op); }

// One for each size that the program uses; views keep its place.
const OpaqueType* value_type(std::size_t bytes) {
  static std::mutex mutex;
  static std::map<std::size_t, OpaqueType> types;
  const std::lock_guard lock(mutex);
  return &types
              .try_emplace(bytes,
                           OpaqueType{.handle = nullptr, .library = {}, .element_bytes = bytes})
              .first->second;
}

}  // namespace hymn::c_api

using namespace hymn::c_api;  // NOLINT: the functions below stand in no namespace

hymnResult_t hymnOpCreate(hymnOpFunction_t function, void* context, size_t value_bytes,
                          int commutative, hymnOp_t* op) {
  return guarded(__func__, [&] {
    need(op, "op");
    if (function == nullptr) throw_null("function");
    if (value_bytes == 0)
      throw hymn::UsageError("a reduction of values of 0 bytes",
                             {.remedy = "give the size of one value"});
    *op = custom_ops().add({.function = function,
                            .context = context,
                            .element_bytes = value_bytes,
                            .commutative = commutative != 0});
  });
}

hymnResult_t hymnOpFree(hymnOp_t* op) {
  return guarded(__func__, [&] {
    custom_ops().free(*need(op, "op"));
    *op = hymnSum;
  });
}
