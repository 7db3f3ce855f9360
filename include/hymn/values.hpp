// Values of any trivially copyable type, and reductions of the program's own: docs/values.md.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstring>
#include <type_traits>

#include "hymn/buffer.hpp"
#include "hymn/standard_parts.hpp"
#include "hymn/types.hpp"

namespace hymn {

/// A type whose values are their bytes: numbers, and structs of such.
template <class T>
concept Value =
    std::is_trivially_copyable_v<T> && std::is_default_constructible_v<T> && !std::is_pointer_v<T>;

namespace detail {

template <class T>
inline constexpr OpaqueType value_type{
    .handle = nullptr, .library = {}, .element_bytes = sizeof(T)};

template <class View, class T>
View view_of_values(T* data, std::size_t count) {
  using Plain = std::remove_cv_t<T>;
  if constexpr (Element<Plain>) {
    return View(data, count, data_type_of<Plain>);
  } else {
    View view(data, count, DataType::value);
    view.opaque = &value_type<Plain>;
    return view;
  }
}

}  // namespace detail

/// A view of one value. All ranks of a call give values of the same size; they are moved by all
/// collectives and messages, and reduced by custom reductions.
template <Value T>
BufferView value_of(T& value) {
  return detail::view_of_values<BufferView>(&value, 1);
}
template <Value T>
ConstBufferView value_of(const T& value) {
  return detail::view_of_values<ConstBufferView>(&value, 1);
}

/// The same of a vector, array or span of values.
template <std::ranges::contiguous_range Range>
  requires Value<std::ranges::range_value_t<Range>> &&
           (std::is_lvalue_reference_v<Range> || std::ranges::borrowed_range<Range>)
auto values_of(Range&& range) {
  using Pointed = std::remove_reference_t<std::ranges::range_reference_t<Range>>;
  using View = std::conditional_t<std::is_const_v<Pointed>, ConstBufferView, BufferView>;
  return detail::view_of_values<View>(std::ranges::data(range), std::ranges::size(range));
}

/// In which order a custom reduction may be applied: x0 op x1 op x2 … over the group's ranks, or
/// any, which is right where a op b and b op a are the same.
enum class CombineOrder : std::uint8_t { of_ranks, any };

namespace detail {

template <class T, class Function>
void combine_values(void* inout, const void* in, std::size_t count, void*) {
  auto* to = static_cast<std::byte*>(inout);
  const auto* from = static_cast<const std::byte*>(in);
  // Copied, for they may lie at any address.
  for (std::size_t i = 0; i < count; ++i, to += sizeof(T), from += sizeof(T)) {
    T left{};
    T right{};
    std::memcpy(static_cast<void*>(&left), to, sizeof(T));
    std::memcpy(static_cast<void*>(&right), from, sizeof(T));
    const T& lower = left;
    const T& higher = right;
    const T both = Function()(lower, higher);
    std::memcpy(to, static_cast<const void*>(&both), sizeof(T));
  }
}

template <class T, class Function, bool commutative>
inline constexpr CustomReduction reduction_by{.function = combine_values<T, Function>,
                                              .context = nullptr,
                                              .element_bytes = sizeof(T),
                                              .commutative = commutative};

}  // namespace detail

/// The reduction that makes of two values of T what `function(lower, higher)` returns, where
/// `lower` comes from lower ranks. It is associative and has no state, as a lambda that captures
/// nothing; for one with a state fill a CustomReduction (ReduceOp::custom). All ranks give the same
/// one.
///
///     group.all_reduce(hymn::values_of(points), hymn::reduce_by<Point>([](Point a, Point b) {
///       return Point{a.x + b.x, a.y * b.y};
///     }));
template <Value T, class Function>
  requires std::is_empty_v<Function> && std::is_default_constructible_v<Function> &&
           std::is_invocable_r_v<T, Function, const T&, const T&>
constexpr ReduceOp reduce_by(Function, CombineOrder order = CombineOrder::of_ranks) {
  return ReduceOp::custom(order == CombineOrder::any ? detail::reduction_by<T, Function, true>
                                                     : detail::reduction_by<T, Function, false>);
}

/// A value, and where it is: for minloc and maxloc.
template <class T, class Index = std::int64_t>
struct Located {
  T value{};
  Index index{};

  friend bool operator==(const Located&, const Located&) = default;
};

namespace detail {

/// A NaN comes before all else, as in min and max; of equal values, and of NaNs, the one with the
/// lowest index.
template <bool wants_greater>
struct Extreme {
  template <class Pair>
  Pair operator()(const Pair& a, const Pair& b) const {
    const bool a_is_nan = a.value != a.value;
    const bool b_is_nan = b.value != b.value;
    if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
    if (a_is_nan || a.value == b.value) return b.index < a.index ? b : a;
    return (wants_greater ? b.value < a.value : a.value < b.value) ? a : b;
  }
};

}  // namespace detail

/// As MPI_MINLOC and MPI_MAXLOC, of Located<T, Index>: the least (greatest) value, and its index;
/// of equal ones the lowest index. Where there is a NaN the result is a NaN, with the lowest index
/// of one.
template <class T, class Index = std::int64_t>
inline constexpr ReduceOp minloc =
    reduce_by<Located<T, Index>>(detail::Extreme<false>(), CombineOrder::any);
template <class T, class Index = std::int64_t>
inline constexpr ReduceOp maxloc =
    reduce_by<Located<T, Index>>(detail::Extreme<true>(), CombineOrder::any);

}  // namespace hymn
