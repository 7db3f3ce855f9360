// Names and sizes of the vocabulary in hymn/types.hpp and hymn/request.hpp.
#include "hymn/types.hpp"

#include <array>

#include "hymn/request.hpp"

namespace hymn {

namespace {

struct DataTypeFacts {
  std::string_view name;
  std::size_t bytes;
};

// In the order of the enumeration.
constexpr std::array<DataTypeFacts, data_type_count> data_types = {{
    {"boolean", 1},
    {"int8", 1},
    {"uint8", 1},
    {"int32", 4},
    {"uint32", 4},
    {"int64", 8},
    {"uint64", 8},
    {"float16", 2},
    {"bfloat16", 2},
    {"float32", 4},
    {"float64", 8},
    {"complex64", 8},
    {"complex128", 16},
    {"float8_e4m3fn", 1},
    {"float8_e5m2", 1},
    {"opaque", 0},
}};

constexpr std::array<std::string_view, reduce_kind_count> reduce_kinds = {
    "sum", "product", "min", "max", "band", "bor", "bxor", "avg", "premul_sum", "opaque",
};

constexpr std::array<std::string_view, 4> memory_kinds = {"host", "pinned", "device", "managed"};

constexpr std::array<std::string_view, op_type_count> op_types = {
    "all_reduce",     "broadcast",  "reduce",  "gather", "scatter", "all_gather",
    "reduce_scatter", "all_to_all", "barrier", "send",   "recv",    "batch",
};

// A short list would leave empty names at its end.
static_assert(!data_types.back().name.empty());
static_assert(!reduce_kinds.back().empty());
static_assert(!op_types.back().empty());

/// Values from outside the enumeration can come in through the C interface.
template <class Enum, std::size_t count>
std::string_view name_of(const std::array<std::string_view, count>& names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < count ? names[index] : "unknown";
}

}  // namespace

std::size_t size_of(DataType dtype) noexcept {
  const auto index = static_cast<std::size_t>(dtype);
  return index < data_types.size() ? data_types[index].bytes : 0;
}

std::string_view to_string(DataType dtype) noexcept {
  const auto index = static_cast<std::size_t>(dtype);
  return index < data_types.size() ? data_types[index].name : "unknown";
}

std::string_view to_string(ReduceKind kind) noexcept { return name_of(reduce_kinds, kind); }

std::string_view to_string(MemoryKind memory) noexcept { return name_of(memory_kinds, memory); }

std::string_view to_string(OpType type) noexcept { return name_of(op_types, type); }

}  // namespace hymn
