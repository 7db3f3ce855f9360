// The C API: types of values, and reductions of the program's own.
#include <fmt/format.h>

#include <array>
#include <map>
#include <mutex>

#include "hymn/values.hpp"
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

/// minloc and maxloc of values of one type. As operations of C they have numbers of their own, as
/// far from all others as those of CustomOps.
struct LocatedOps {
  static constexpr hymnOp_t first = hymnOp_t{1} << 39;

  DataType dtype;
  std::array<ReduceOp, 2> ops;
};

template <class... Values>
constexpr std::array located_ops_of = {
    LocatedOps{data_type_of<Values>, {minloc<Values>, maxloc<Values>}}...};
constexpr auto all_located_ops =
    located_ops_of<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t,
                   std::uint32_t, std::int64_t, std::uint64_t, float, double>;

enum class Extremum : std::size_t { least, greatest };

hymnOp_t located_op(hymnDataType_t dtype, Extremum which) {
  const DataType type = input(nullptr, 0, dtype).dtype;
  for (std::size_t row = 0; row < all_located_ops.size(); ++row)
    if (all_located_ops[row].dtype == type)
      return LocatedOps::first + 2 * row + static_cast<std::size_t>(which);
  throw UnsupportedError(
      fmt::format("no least or greatest one of {} is found with its index", traits_of(type).name),
      {.remedy = "give an integer, hymnFloat32 or hymnFloat64, or make an "
                 "operation by hymnOpCreate"});
}

const CustomReduction* located_reduction(hymnOp_t op) {
  const hymnOp_t number = op - LocatedOps::first;  // what is less wraps
  if (number >= 2 * all_located_ops.size()) return nullptr;
  return all_located_ops[number / 2].ops[number % 2].custom_reduction();
}

}  // namespace

const CustomReduction* custom_reduction(hymnOp_t op) {
  const CustomReduction* located = located_reduction(op);
  return located != nullptr ? located : custom_ops().find(op);
}

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

hymnResult_t hymnOpMinLoc(hymnDataType_t dtype, hymnOp_t* op) {
  return guarded(__func__, [&] { *need(op, "op") = located_op(dtype, Extremum::least); });
}

hymnResult_t hymnOpMaxLoc(hymnDataType_t dtype, hymnOp_t* op) {
  return guarded(__func__, [&] { *need(op, "op") = located_op(dtype, Extremum::greatest); });
}
