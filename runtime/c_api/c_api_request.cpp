// The C API: from C arguments to views and operations, and from a Request to its end.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "runtime/c_api/c_api.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn::c_api {
namespace {

static_assert(static_cast<int>(DataType::boolean) == hymnBool);
static_assert(static_cast<int>(DataType::int8) == hymnInt8);
static_assert(static_cast<int>(DataType::uint8) == hymnUint8);
static_assert(static_cast<int>(DataType::int32) == hymnInt32);
static_assert(static_cast<int>(DataType::uint32) == hymnUint32);
static_assert(static_cast<int>(DataType::int64) == hymnInt64);
static_assert(static_cast<int>(DataType::uint64) == hymnUint64);
static_assert(static_cast<int>(DataType::float16) == hymnFloat16);
static_assert(static_cast<int>(DataType::bfloat16) == hymnBfloat16);
static_assert(static_cast<int>(DataType::float32) == hymnFloat32);
static_assert(static_cast<int>(DataType::float64) == hymnFloat64);
static_assert(static_cast<int>(DataType::complex64) == hymnComplex64);
static_assert(static_cast<int>(DataType::complex128) == hymnComplex128);
static_assert(static_cast<int>(DataType::float8_e4m3fn) == hymnFloat8e4m3);
static_assert(static_cast<int>(DataType::float8_e5m2) == hymnFloat8e5m2);
static_assert(static_cast<int>(DataType::opaque) == hymnFloat8e5m2 + 1);
static_assert(static_cast<int>(ReduceKind::sum) == hymnSum);
static_assert(static_cast<int>(ReduceKind::product) == hymnProd);
static_assert(static_cast<int>(ReduceKind::min) == hymnMin);
static_assert(static_cast<int>(ReduceKind::max) == hymnMax);
static_assert(static_cast<int>(ReduceKind::band) == hymnBand);
static_assert(static_cast<int>(ReduceKind::bor) == hymnBor);
static_assert(static_cast<int>(ReduceKind::bxor) == hymnBxor);
static_assert(static_cast<int>(ReduceKind::avg) == hymnAvg);
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
    throw UsageError(fmt::format("{} is not a hymnOp_t", static_cast<std::int64_t>(op)),
                     {.remedy = "give hymnSum to hymnAvg, or what hymnOpPremulSum has returned"});
  return factor;
}

DataType data_type(hymnDataType_t dtype) {
  const auto value = static_cast<unsigned>(dtype);
  if (value >= static_cast<unsigned>(DataType::opaque)) {
    throw UsageError(fmt::format("{} is not a hymnDataType_t", value));
  }
  return static_cast<DataType>(value);
}

}  // namespace

ReduceOp reduce_op(hymnOp_t op) {
  if (op > hymnAvg) return ReduceOp::premul_sum(factor_of(op));
  return ReduceOp::of(static_cast<ReduceKind>(op));
}

hymnOp_t op_value(const ReduceOp& op) {
  return op.kind() == ReduceKind::premul_sum ? hymnOpPremulSum(op.factor())
                                             : static_cast<hymnOp_t>(op.kind());
}

ConstBufferView input(const void* data, std::size_t count, hymnDataType_t dtype) {
  return {data, count, data_type(dtype)};
}

BufferView output(void* data, std::size_t count, hymnDataType_t dtype) {
  return {data, count, data_type(dtype)};
}

// Too much to count stays too much: the runtime refuses it, with the rank and the group.
std::size_t for_all(std::size_t count, const ProcessGroup& group) {
  const auto ranks = static_cast<std::size_t>(group.size());
  return count > SIZE_MAX / ranks ? SIZE_MAX : count * ranks;
}

std::span<const std::size_t> counts_of(const std::size_t* counts, const ProcessGroup& group,
                                       const char* name) {
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

void Call::finish(ProcessGroup& target, const Request& request) const {
  detail::GroupState& state = *detail::GroupState::of(target);
  const CallOptions options{.stream = stream};
  if (asynchronous) {
    hand_out([&] { return Work(state.start(request, options, site)); });
    return;
  }
  const RecvStatus received = state.run(request, options, site);
  if (status != nullptr) *status = {received.source, received.tag, received.count};
}

}  // namespace hymn::c_api

hymnOp_t hymnOpPremulSum(double factor) { return hymn::c_api::premul_bits(factor); }
