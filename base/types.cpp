// Names of the vocabulary in hymn/types.hpp and hymn/request.hpp.
#include "hymn/types.hpp"

#include <array>

#include "hymn/request.hpp"

namespace hymn {

namespace {

// In the order of the enumerations.
constexpr std::array<std::string_view, data_type_count> data_types = {
    "boolean",    "int8",          "uint8",       "int32",   "uint32",  "int64",
    "uint64",     "float16",       "bfloat16",    "float32", "float64", "complex64",
    "complex128", "float8_e4m3fn", "float8_e5m2", "opaque",
};

constexpr std::array<std::string_view, reduce_kind_count> reduce_kinds = {
    "sum", "product", "min", "max", "band", "bor", "bxor", "avg", "premul_sum", "opaque",
};

constexpr std::array<std::string_view, 4> memory_kinds = {"host", "pinned", "device", "managed"};

constexpr std::array<std::string_view, 3> check_level_names = {"off", "info", "detail"};

constexpr std::array<std::string_view, reproducibility_count> levels = {"ranks", "runs",
                                                                        "placement", "size"};

constexpr std::array<std::string_view, op_type_count> op_types = {
    "all_reduce",     "broadcast",  "reduce",  "gather", "scatter", "all_gather",
    "reduce_scatter", "all_to_all", "barrier", "send",   "recv",    "batch",
};

// A short list would leave empty names at its end.
static_assert(!data_types.back().empty());
static_assert(!reduce_kinds.back().empty());
static_assert(!op_types.back().empty());

/// Values from outside the enumeration can come in through the C interface.
template <class Enum, std::size_t count>
std::string_view name_of(const std::array<std::string_view, count>& names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < count ? names[index] : "unknown";
}

}  // namespace

std::string_view to_string(DataType dtype) noexcept { return name_of(data_types, dtype); }

std::string_view to_string(ReduceKind kind) noexcept { return name_of(reduce_kinds, kind); }

std::string_view to_string(MemoryKind memory) noexcept { return name_of(memory_kinds, memory); }

std::string_view to_string(Reproducibility level) noexcept { return name_of(levels, level); }

std::string_view to_string(CheckLevel level) noexcept { return name_of(check_level_names, level); }

std::string_view to_string(OpType type) noexcept { return name_of(op_types, type); }

}  // namespace hymn
