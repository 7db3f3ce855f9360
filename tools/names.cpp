#include "tools/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "tools/bad_arguments.hpp"

namespace hymn {

std::vector<std::string_view> dtype_names() {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i + 1 < data_type_count; ++i)
    names.push_back(to_string(static_cast<DataType>(i)));
  return names;
}

std::vector<std::string_view> op_names() {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i + 1 < reduce_kind_count; ++i)
    names.push_back(to_string(static_cast<ReduceKind>(i)));
  return names;
}

std::size_t index_of(const std::string& name, const std::vector<std::string_view>& names,
                     std::string_view what) {
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw BadArguments(
        fmt::format("unknown {} '{}'; there are: {}", what, name, fmt::join(names, ", ")));
  return static_cast<std::size_t>(found - names.begin());
}

DataType dtype_named(const std::string& name) {
  return static_cast<DataType>(index_of(name, dtype_names(), "dtype"));
}

ReduceOp op_named(const std::string& name) {
  constexpr double premul_factor = 2.0;
  const auto kind = static_cast<ReduceKind>(index_of(name, op_names(), "op"));
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
  return fmt::format("{:.1f} ms", us / 1e3);
}

}  // namespace hymn
