#include "collectives/nccl/nccl_types.hpp"

#include <fmt/format.h>

#include "hymn/error.hpp"

namespace hymn {
namespace {

bool is_float(DataType dtype) {
  return dtype == DataType::float16 || dtype == DataType::bfloat16 || dtype == DataType::float32 ||
         dtype == DataType::float64;
}

bool is_integer(DataType dtype) { return dtype >= DataType::int8 && dtype <= DataType::uint64; }

}  // namespace

std::string nccl_refusal(DataType dtype, ReduceKind kind) {
  if (!is_float(dtype) && !is_integer(dtype))
    return fmt::format("NCCL cannot reduce {}", to_string(dtype));
  switch (kind) {
    case ReduceKind::band:
    case ReduceKind::bor:
    case ReduceKind::bxor:
    case ReduceKind::opaque:
      return fmt::format("NCCL has no {}", to_string(kind));
    case ReduceKind::avg:
      return is_integer(dtype) ? "NCCL's averages of integers wrap before they are divided" : "";
    case ReduceKind::min:
    case ReduceKind::max:
      return is_float(dtype)
                 ? fmt::format("NCCL does not specify what its {} does with a NaN", to_string(kind))
                 : "";
    default:
      return "";
  }
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
    default:
      throw Error(ErrorKind::internal, fmt::format("NCCL has no {}", to_string(dtype)));
  }
}

nccl_api::Op nccl_op(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum:
      return nccl_api::sum;
    case ReduceKind::product:
      return nccl_api::product;
    case ReduceKind::min:
      return nccl_api::min;
    case ReduceKind::max:
      return nccl_api::max;
    case ReduceKind::avg:
      return nccl_api::avg;
    default:
      throw Error(ErrorKind::internal, fmt::format("NCCL has no {}", to_string(kind)));
  }
}

}  // namespace hymn
