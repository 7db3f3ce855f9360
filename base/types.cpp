// Names of the vocabulary in hymn/types.hpp and hymn/op_type.hpp.
#include "hymn/types.hpp"

#include <array>

#include "hymn/op_type.hpp"

namespace hymn {

namespace {

constexpr std::array<std::string_view, 4> memory_kinds = {"host", "pinned", "device", "managed"};

constexpr std::array<std::string_view, 3> check_level_names = {"off", "info", "detail"};

constexpr std::array<std::string_view, reproducibility_count> levels = {"ranks", "runs",
                                                                        "placement", "size"};

/// Values from outside the enumeration can come in through the C interface.
template <class Enum, std::size_t count>
std::string_view name_of(const std::array<std::string_view, count>& names, Enum value) {
  const auto index = static_cast<std::size_t>(value);
  return index < count ? names[index] : "unknown";
}

}  // namespace

std::string_view to_string(DataType dtype) noexcept { return traits_of(dtype).name; }

std::string_view to_string(ReduceKind kind) noexcept { return traits_of(kind).name; }

std::string_view to_string(MemoryKind memory) noexcept { return name_of(memory_kinds, memory); }

std::string_view to_string(Reproducibility level) noexcept { return name_of(levels, level); }

std::string_view to_string(CheckLevel level) noexcept { return name_of(check_level_names, level); }

std::string_view to_string(OpType type) noexcept { return traits_of(type).name; }

}  // namespace hymn
