// Tables that describe the enumerators of an enumeration.
//
// A function `define` with a case for each enumerator, and no default, says what each one is: so
// the compiler asks for what a new one is, and how many there are is counted rather than written
// down. What depends on the kind of something reads its row.
#pragma once

#include "hymn/standard.hpp"  // first

#include <array>
#include <cstddef>

namespace hymn::detail {

/// So many values, from 0 on, have a name.
template <class Enum>
inline constexpr std::size_t described_count = [] {
  std::size_t count = 0;
  while (!define(static_cast<Enum>(count)).name.empty()) ++count;
  return count;
}();

/// All enumerators.
template <class Enum>
inline constexpr auto all_described = [] {
  std::array<Enum, described_count<Enum>> all{};
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<Enum>(i);
  return all;
}();

/// A row for each enumerator, and one for all that is none: values from outside the enumeration can
/// come in through the C interface, and from other processes.
template <class Enum>
inline constexpr auto rows_of = [] {
  std::array<decltype(define(Enum{})), described_count<Enum> + 1> rows{};
  for (const Enum each : all_described<Enum>) rows[static_cast<std::size_t>(each)] = define(each);
  rows.back().name = "unknown";
  return rows;
}();

template <class Enum>
constexpr const auto& row_of(Enum value) noexcept {
  const auto index = static_cast<std::size_t>(value);
  return rows_of<Enum>[index < described_count<Enum> ? index : described_count<Enum>];
}

}  // namespace hymn::detail
