// What NCCL can reduce, and how it names types and operations.
#pragma once

#include <string>

#include "base/private.hpp"
#include "gpu/nccl_api.hpp"
#include "hymn/types.hpp"

namespace hymn {

/// Why NCCL cannot reduce these as docs/dtypes.md defines it; empty: it can.
HYMN_PRIVATE std::string nccl_refusal(DataType dtype, ReduceKind kind);

/// Why NCCL is not to reduce it as it is in a group that asks for float32; empty: it may.
std::string float32_refusal(DataType dtype);

/// Of a type that nccl_refusal() does not refuse.
HYMN_PRIVATE nccl_api::DataType nccl_type(DataType dtype);

/// Of a kind that nccl_refusal() does not refuse, other than premul_sum, which is made for each
/// communicator.
HYMN_PRIVATE nccl_api::Op nccl_op(ReduceKind kind);

}  // namespace hymn
