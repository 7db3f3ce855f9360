#include "collectives/nccl/nccl_types.hpp"

#include <fmt/format.h>

#include "hymn/error.hpp"

namespace hymn {
namespace {

bool is_float(DataType dtype) { return traits_of(dtype).family == DataFamily::floating; }

bool is_integer(DataType dtype) { return traits_of(dtype).family == DataFamily::integer; }

}  // namespace

std::string nccl_refusal(DataType dtype, ReduceKind kind) {
  const bool is_short = dtype == DataType::int16 || dtype == DataType::uint16;
  if (is_short || (!is_float(dtype) && !is_integer(dtype)))
    return fmt::format("NCCL cannot reduce {}", to_string(dtype));
  const ReduceFamily family = traits_of(kind).family;
  if (kind == ReduceKind::avg && is_integer(dtype))
    return "NCCL's averages of integers wrap before they are divided";
  if (family == ReduceFamily::order && is_float(dtype))
    return fmt::format("NCCL does not specify what its {} does with a NaN", to_string(kind));
  const bool has_it = family == ReduceFamily::sum || family == ReduceFamily::product ||
                      family == ReduceFamily::order;
  return has_it ? "" : fmt::format("NCCL has no {}", to_string(kind));
}

std::string float32_refusal(DataType dtype) {
  if (dtype != DataType::float16 && dtype != DataType::bfloat16) return "";
  return fmt::format("reduce_in_float32: {} is not to be rounded at each hop", to_string(dtype));
}

nccl_api::DataType nccl_type(DataType dtype) {
  switch (dtype) {
    case DataType::int8:
      return nccl_api::int8;
    case DataType::uint8:
      return nccl_api::uint8;
    case DataType::int32:
      return nccl_api::int32;
    case DataType::uint32:
      return nccl_api::uint32;
    case DataType::int64:
      return nccl_api::int64;
    case DataType::uint64:
      return nccl_api::uint64;
    case DataType::float16:
      return nccl_api::float16;
    case DataType::bfloat16:
      return nccl_api::bfloat16;
    case DataType::float32:
      return nccl_api::float32;
    case DataType::float64:
      return nccl_api::float64;
    case DataType::boolean:
    case DataType::int16:
    case DataType::uint16:
    case DataType::complex64:
    case DataType::complex128:
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::value:
    case DataType::opaque:
      break;
  }
  throw Error(ErrorKind::internal, fmt::format("NCCL has no {}", to_string(dtype)));
}

nccl_api::Op nccl_op(ReduceKind kind) {
  if (kind == ReduceKind::sum) return nccl_api::sum;
  if (kind == ReduceKind::product) return nccl_api::product;
  if (kind == ReduceKind::min) return nccl_api::min;
  if (kind == ReduceKind::max) return nccl_api::max;
  if (kind == ReduceKind::avg) return nccl_api::avg;
  throw Error(ErrorKind::internal, fmt::format("NCCL has no {}", to_string(kind)));
}

}  // namespace hymn
