// The C API: from C arguments to views and operations, and from a Request to its end.
#include <fmt/format.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>

#include "runtime/c_api/c_api.hpp"
#include "runtime/group/work_starter.hpp"

namespace hymn::c_api {
namespace {

/// What C calls it; null: nothing.
constexpr std::optional<std::uint64_t> c_value(DataType dtype) {
  switch (dtype) {
    case DataType::boolean:
      return hymnBool;
    case DataType::int8:
      return hymnInt8;
    case DataType::uint8:
      return hymnUint8;
    case DataType::int16:
      return hymnInt16;
    case DataType::uint16:
      return hymnUint16;
    case DataType::int32:
      return hymnInt32;
    case DataType::uint32:
      return hymnUint32;
    case DataType::int64:
      return hymnInt64;
    case DataType::uint64:
      return hymnUint64;
    case DataType::float16:
      return hymnFloat16;
    case DataType::bfloat16:
      return hymnBfloat16;
    case DataType::float32:
      return hymnFloat32;
    case DataType::float64:
      return hymnFloat64;
    case DataType::complex64:
      return hymnComplex64;
    case DataType::complex128:
      return hymnComplex128;
    case DataType::float8_e4m3fn:
      return hymnFloat8e4m3;
    case DataType::float8_e5m2:
      return hymnFloat8e5m2;
    case DataType::value:  // one for each size
    case DataType::opaque:
      break;
  }
  return std::nullopt;
}

constexpr std::optional<std::uint64_t> c_value(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum:
      return hymnSum;
    case ReduceKind::product:
      return hymnProd;
    case ReduceKind::min:
      return hymnMin;
    case ReduceKind::max:
      return hymnMax;
    case ReduceKind::band:
      return hymnBand;
    case ReduceKind::bor:
      return hymnBor;
    case ReduceKind::bxor:
      return hymnBxor;
    case ReduceKind::land:
      return hymnLand;
    case ReduceKind::lor:
      return hymnLor;
    case ReduceKind::lxor:
      return hymnLxor;
    case ReduceKind::avg:
      return hymnAvg;
    case ReduceKind::premul_sum:  // a value for each factor
    case ReduceKind::custom:      // a value for each that is made
    case ReduceKind::opaque:
      break;
  }
  return std::nullopt;
}

/// The enumerators at the values that C has for them. A value beyond their number does not compile.
template <class Enum, std::size_t count>
consteval auto by_c_value(const std::array<Enum, count>& all) {
  std::array<std::optional<Enum>, count> found{};
  for (const Enum each : all)
    if (const auto value = c_value(each)) found.at(*value) = each;
  return found;
}

template <class Enum, std::size_t count>
std::optional<Enum> at(const std::array<std::optional<Enum>, count>& found, std::uint64_t value) {
  return value < count ? found[value] : std::nullopt;
}

constexpr auto dtypes_of_c = by_c_value(all_data_types);
constexpr auto kinds_of_c = by_c_value(all_reduce_kinds);

static_assert(any_source == HYMN_ANY_SOURCE && ProcessGroup::max_tag == HYMN_MAX_TAG);

// A hymnOp_t is one of the constants, or stands for a factor: numbered from 0 in both directions,
// as the bits of a NaN that no factor has. So what is passed by mistake, a small number of either
// sign, is none.
constexpr std::uint64_t bits_of_zero = 0x7ff45a5a5a5a5a5a;

hymnOp_t premul_bits(double factor) {
  if (std::isnan(factor)) factor = std::numeric_limits<double>::quiet_NaN();
  const std::uint64_t zigzag = std::bit_cast<std::uint64_t>(factor) ^ bits_of_zero;
  return zigzag >> 1 ^ -(zigzag & 1);
}

double factor_of(hymnOp_t op) {
  const std::uint64_t zigzag = op << 1 ^ -(op >> 63);
  const double factor = std::bit_cast<double>(zigzag ^ bits_of_zero);
  if (premul_bits(factor) != op)
    throw UsageError(
        fmt::format("{} is not a hymnOp_t", static_cast<std::int64_t>(op)),
        {.remedy = "give hymnSum to hymnLxor, what hymnOpPremulSum has returned, or what "
                   "hymnOpCreate has made and hymnOpFree has not freed"});
  return factor;
}

/// Nothing: it is no type of values.
std::optional<std::size_t> bytes_of_value(hymnDataType_t dtype) {
  const auto value = static_cast<unsigned>(dtype);
  constexpr unsigned first = hymnValueBytes;
  return value > first && value < 2 * first ? std::optional<std::size_t>(value - first)
                                            : std::nullopt;
}

DataType data_type(hymnDataType_t dtype) {
  const auto value = static_cast<unsigned>(dtype);
  const std::optional<DataType> found = at(dtypes_of_c, value);
  if (!found) throw UsageError(fmt::format("{} is not a hymnDataType_t", value));
  return *found;
}

template <class View, class Pointer>
View view_of(Pointer data, std::size_t count, hymnDataType_t dtype) {
  const std::optional<std::size_t> bytes = bytes_of_value(dtype);
  View view(data, count, bytes ? DataType::value : data_type(dtype));
  if (bytes) view.opaque = value_type(*bytes);
  return view;
}

}  // namespace

ReduceOp reduce_op(hymnOp_t op) {
  const std::optional<ReduceKind> kind = at(kinds_of_c, op);
  if (!kind)
    if (const CustomReduction* custom = custom_reduction(op)) return ReduceOp::custom(*custom);
  return kind ? ReduceOp::of(*kind) : ReduceOp::premul_sum(factor_of(op));
}

hymnOp_t op_value(const ReduceOp& op) {
  if (op.kind() == ReduceKind::premul_sum) return hymnOpPremulSum(op.factor());
  return c_value(op.kind()).value();
}

ConstBufferView input(const void* data, std::size_t count, hymnDataType_t dtype) {
  return view_of<ConstBufferView>(data, count, dtype);
}

BufferView output(void* data, std::size_t count, hymnDataType_t dtype) {
  return view_of<BufferView>(data, count, dtype);
}

hymnDataType_t c_type(DataType dtype) {
  const std::optional<std::uint64_t> value = c_value(dtype);
  if (!value) throw UsageError(fmt::format("C has no name for {}", to_string(dtype)));
  return static_cast<hymnDataType_t>(*value);
}

// Too much to count stays too much: the runtime refuses it, with the rank and the group.
std::size_t for_all(std::size_t count, const ProcessGroup& group) {
  const auto ranks = static_cast<std::size_t>(group.size());
  return count > SIZE_MAX / ranks ? SIZE_MAX : count * ranks;
}

std::span<const std::size_t> counts_of(const std::size_t* counts, const ProcessGroup& group,
                                       const char* name) {
  if (!group.is_member()) return {};  // who is only warned, whatever it gives
  return {need(counts, name), static_cast<std::size_t>(group.size())};
}

std::size_t sum_of(std::span<const std::size_t> counts) {
  std::size_t total = 0;
  for (const std::size_t count : counts)
    total = count > SIZE_MAX - total ? SIZE_MAX : total + count;
  return total;
}

std::size_t own_count(std::span<const std::size_t> counts, const ProcessGroup& group) {
  return group.is_member() ? counts[static_cast<std::size_t>(group.rank())] : 0;
}

ProcessGroup& Call::checked_group() const {
  if (asynchronous) *need(work, "work") = nullptr;
  return need(group, "group")->group;
}

detail::GroupState& Call::state() const { return detail::need(checked_group()); }

// Inside a coalescing scope a call has no limit of its own: that is for the end of the scope.
CallOptions Call::limited_options() const {
  if (state().works().scopes().of_this_thread() != nullptr) return {.stream = stream};
  return {.timeout = option_timeout(caller.timeout_seconds), .stream = stream};
}

void Call::finish(ProcessGroup& target, const Request& request) const {
  detail::GroupState& state = *detail::GroupState::of(target);
  const CallOptions options = this->options();
  if (asynchronous) {
    hand_out([&] { return Work(detail::WorkStarter(state, options, site).start(request)); });
    return;
  }
  const RecvStatus received = state.run(request, options, site);
  if (status != nullptr) *status = {received.source, received.tag, received.count};
}

}  // namespace hymn::c_api

hymnOp_t hymnOpPremulSum(double factor) { return hymn::c_api::premul_bits(factor); }
