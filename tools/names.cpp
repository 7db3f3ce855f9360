#include "tools/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <type_traits>

#include "tools/bad_arguments.hpp"

namespace hymn {

namespace {

struct ShortName {
  std::string_view name;
  DataType dtype;
};

// What other tools call the types. docs/command.md lists them.
constexpr std::array short_names = {
    ShortName{"bool", DataType::boolean},
    ShortName{"i8", DataType::int8},
    ShortName{"u8", DataType::uint8},
    ShortName{"i32", DataType::int32},
    ShortName{"int", DataType::int32},
    ShortName{"u32", DataType::uint32},
    ShortName{"i64", DataType::int64},
    ShortName{"long", DataType::int64},
    ShortName{"u64", DataType::uint64},
    ShortName{"f16", DataType::float16},
    ShortName{"fp16", DataType::float16},
    ShortName{"half", DataType::float16},
    ShortName{"bf16", DataType::bfloat16},
    ShortName{"f32", DataType::float32},
    ShortName{"fp32", DataType::float32},
    ShortName{"float", DataType::float32},
    ShortName{"f64", DataType::float64},
    ShortName{"fp64", DataType::float64},
    ShortName{"double", DataType::float64},
    ShortName{"c64", DataType::complex64},
    ShortName{"c128", DataType::complex128},
    ShortName{"fp8_e4m3", DataType::float8_e4m3fn},
    ShortName{"fp8_e5m2", DataType::float8_e5m2},
};

/// Those that are hymn's own, and can be asked for by name.
template <class Enum, std::size_t count>
std::vector<Enum> own_of(const std::array<Enum, count>& all) {
  std::vector<Enum> own(all.begin(), all.end());
  std::erase(own, Enum::opaque);
  if constexpr (std::is_same_v<Enum, DataType>) std::erase(own, Enum::value);
  if constexpr (std::is_same_v<Enum, ReduceKind>) std::erase(own, Enum::custom);
  return own;
}

template <class Enum, std::size_t count>
std::vector<std::string_view> names_of(const std::array<Enum, count>& all) {
  std::vector<std::string_view> names;
  for (const Enum each : own_of(all)) names.push_back(to_string(each));
  return names;
}

}  // namespace

std::vector<std::string_view> dtype_names() { return names_of(all_data_types); }

std::vector<std::string_view> op_names() { return names_of(all_reduce_kinds); }

std::size_t index_of(const std::string& name, const std::vector<std::string_view>& names,
                     std::string_view what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw BadArguments(
        fmt::format("unknown {} '{}'; there are: {}", what, name, fmt::join(names, ", ")));
  return static_cast<std::size_t>(found - names.begin());
}

DataType dtype_named(const std::string& name) {
  for (const ShortName& other : short_names)
    if (other.name == name) return other.dtype;
  return own_of(all_data_types)[index_of(name, dtype_names(), "dtype")];
}

ReduceOp op_named(const std::string& name) {
  constexpr double premul_factor = 2.0;
  const ReduceKind kind = own_of(all_reduce_kinds)[index_of(name, op_names(), "op")];
  return kind == ReduceKind::premul_sum ? ReduceOp::premul_sum(premul_factor) : ReduceOp::of(kind);
}

std::string show_bytes(std::size_t bytes) {
  constexpr std::array units = {"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  for (; bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < units.size(); ++unit) bytes /= 1024;
  return fmt::format("{} {}", bytes, units[unit]);
}

std::string show_time(double us) {
  if (us < 10) return fmt::format("{:.2f} us", us);
  if (us < 1e3) return fmt::format("{:.1f} us", us);
  if (us < 1e6) return fmt::format("{:.1f} ms", us / 1e3);
  return fmt::format("{:.1f} s", us / 1e6);
}

}  // namespace hymn
