// How a value of any type becomes bytes, and bytes a value. docs/objects.md has the format.
//
// Known are: types that can be copied byte by byte, std::string, std::optional, std::variant,
// std::pair, std::tuple, arrays, and the containers of the standard library that know their size;
// all of them of each other, and of types of one's own. Such a type says what it is made of
//
//     struct Particle {
//       std::string name;
//       std::vector<double> place;
//       static auto object_fields(auto& self) { return std::tie(self.name, self.place); }
//     };
//
// (and so does each type that is derived from it, which would otherwise send its base's alone)
// or, where it cannot be changed or is read in another way than it is written, gets a format:
//
//     template <>
//     struct hymn::ObjectFormat<Label> {
//       static void write(ObjectWriter& out, const Label& label) { out.put(label.text()); }
//       static void read(ObjectReader& in, Label& label) {
//         std::string text;
//         in.get(text);
//         label = Label(text);
//       }
//     };
#pragma once

#include "hymn/standard.hpp"  // first

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <span>
#include <system_error>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "hymn/export.hpp"
#include "hymn/object_stream.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn {

namespace detail {

template <class T>
concept HasObjectFields = requires(T& value, const T& given) {
  T::object_fields(value);
  T::object_fields(given);
};

// An aggregate has members beside what it is derived from, and what contains its own type is more
// than its elements (a JSON value is a number or a text as well).
template <class T>
concept GrowingRange = std::ranges::range<T> && !std::is_aggregate_v<T> &&
                       requires(T& values, typename T::value_type&& value) {
                         requires !std::same_as<typename T::value_type, T>;
                         values.clear();
                         values.insert(values.end(), std::move(value));
                         { values.size() } -> std::convertible_to<std::size_t>;
                       };

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

template <class T>
inline constexpr bool is_variant = false;
template <class... T>
inline constexpr bool is_variant<std::variant<T...>> = true;

template <class T>
inline constexpr bool is_array = std::is_array_v<T>;
template <class T, std::size_t size>
inline constexpr bool is_array<std::array<T, size>> = true;

template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class T, class U>
inline constexpr bool is_tuple<std::pair<T, U>> = true;

/// It means something to its own process alone, though it can be copied byte by byte.
template <class T>
concept LocalObject =
    std::ranges::range<T> || std::input_or_output_iterator<T> || std::is_pointer_v<T> ||
    std::is_null_pointer_v<T> || std::is_member_pointer_v<T> || std::same_as<T, std::error_code> ||
    std::same_as<T, std::error_condition>;

/// What is done with a type that says nothing itself.
enum class ObjectKind : unsigned char {
  none,  ///< unknown, or it only points to what would have to be sent
  fields,
  boolean,
  optional,
  variant,
  container,
  array,
  tuple,
  bytes,
};

template <class T>
consteval ObjectKind object_kind_of() {
  if constexpr (HasObjectFields<T>)
    return ObjectKind::fields;
  else if constexpr (std::same_as<T, bool>)
    return ObjectKind::boolean;
  else if constexpr (is_optional<T>)
    return ObjectKind::optional;
  else if constexpr (is_variant<T>)
    return ObjectKind::variant;
  else if constexpr (GrowingRange<T>)
    return ObjectKind::container;
  else if constexpr (is_array<T>)
    return ObjectKind::array;
  else if constexpr (is_tuple<T>)
    return ObjectKind::tuple;
  else if constexpr (!LocalObject<T> && std::is_trivially_copyable_v<T>)
    return ObjectKind::bytes;
  else
    return ObjectKind::none;
}

template <class T>
inline constexpr ObjectKind object_kind = object_kind_of<T>();

/// A value as it lies in memory.
template <class T>
struct BytesFormat {
  static void write(ObjectWriter& out, const T& value) {
    out.put_bytes(std::as_bytes(std::span(&value, 1)));
  }
  static void read(ObjectReader& in, T& value) {
    in.get_bytes(std::as_writable_bytes(std::span(&value, 1)));
  }
};

/// Elements that lie behind one another, and can be copied at once.
template <class Range>
concept CopiedAtOnce = std::ranges::contiguous_range<Range> &&
                       std::ranges::output_range<Range, std::ranges::range_value_t<Range>> &&
                       std::derived_from<ObjectFormat<std::ranges::range_value_t<Range>>,
                                         BytesFormat<std::ranges::range_value_t<Range>>>;
template <class Range>
concept GrownAtOnce =
    CopiedAtOnce<Range> && requires(Range& values, std::size_t size) { values.resize(size); };

template <class Range>
std::span<const std::byte> bytes_of(const Range& values) {
  return std::as_bytes(std::span(std::ranges::data(values), std::ranges::size(values)));
}
template <class Range>
std::span<std::byte> writable_bytes_of(Range& values) {
  return std::as_writable_bytes(std::span(std::ranges::data(values), std::ranges::size(values)));
}

/// An element of a container, as it is before it is in there.
template <class T>
struct Loose {
  using type = T;
};
template <class Key, class Value>
struct Loose<std::pair<const Key, Value>> {
  using type = std::pair<Key, Value>;
};

}  // namespace detail

template <class T>
  requires(detail::object_kind<T> == detail::ObjectKind::bytes)
struct ObjectFormat<T> : detail::BytesFormat<T> {};

template <class T>
  requires(detail::object_kind<T> == detail::ObjectKind::boolean)
struct ObjectFormat<T> {
  static void write(ObjectWriter& out, bool value) { out.put(static_cast<unsigned char>(value)); }
  static void read(ObjectReader& in, bool& value) {
    unsigned char byte = 0;
    in.get(byte);
    if (byte > 1) in.fail("a bool is neither true nor false");
    value = byte == 1;
  }
};

template <class T>
  requires(detail::object_kind<T> == detail::ObjectKind::fields)
struct ObjectFormat<T> {
  static void write(ObjectWriter& out, const T& value) {
    std::apply([&](const auto&... fields) { out.put(fields...); }, T::object_fields(value));
  }
  static void read(ObjectReader& in, T& value) {
    std::apply([&](auto&... fields) { in.get(fields...); }, T::object_fields(value));
  }
};

template <class T>
  requires(detail::object_kind<T> == detail::ObjectKind::tuple)
struct ObjectFormat<T> {
  static void write(ObjectWriter& out, const T& value) {
    std::apply([&](const auto&... parts) { out.put(parts...); }, value);
  }
  static void read(ObjectReader& in, T& value) {
    std::apply([&](auto&... parts) { in.get(parts...); }, value);
  }
};

template <class T>
  requires(detail::object_kind<T> == detail::ObjectKind::optional)
struct ObjectFormat<T> {
  static void write(ObjectWriter& out, const T& value) {
    out.put(value.has_value());
    if (value) out.put(*value);
  }
  static void read(ObjectReader& in, T& value) {
    bool has_value = false;
    in.get(has_value);
    value.reset();
    if (has_value) in.get(value.emplace());
  }
};

template <class... T>
struct ObjectFormat<std::variant<T...>> {
  using Variant = std::variant<T...>;
  static_assert(sizeof...(T) < 256);

  static void write(ObjectWriter& out, const Variant& value) {
    out.put(static_cast<std::uint8_t>(value.index()));  // none has the last of them: refused below
    std::visit([&](const auto& alternative) { out.put(alternative); }, value);
  }
  static void read(ObjectReader& in, Variant& value) {
    std::uint8_t index = 0;
    in.get(index);
    read_alternative(in, value, index, std::index_sequence_for<T...>());
  }

 private:
  template <std::size_t... indexes>
  static void read_alternative(ObjectReader& in, Variant& value, std::size_t index,
                               std::index_sequence<indexes...>) {
    const bool is_known =
        ((index == indexes && (in.get(value.template emplace<indexes>()), true)) || ...);
    if (!is_known) in.fail("a variant has no such alternative");
  }
};

template <class T>
  requires(detail::object_kind<T> == detail::ObjectKind::array)
struct ObjectFormat<T> {
  static void write(ObjectWriter& out, const T& values) {
    if constexpr (detail::CopiedAtOnce<T>)
      out.put_bytes(detail::bytes_of(values));
    else
      for (const auto& value : values) out.put(value);
  }
  static void read(ObjectReader& in, T& values) {
    if constexpr (detail::CopiedAtOnce<T>)
      in.get_bytes(detail::writable_bytes_of(values));
    else
      for (auto& value : values) in.get(value);
  }
};

template <class T>
  requires(detail::object_kind<T> == detail::ObjectKind::container)
struct ObjectFormat<T> {
  using Element = typename detail::Loose<typename T::value_type>::type;

  static void write(ObjectWriter& out, const T& values) {
    out.put_count(values.size());
    if constexpr (detail::GrownAtOnce<T>)
      out.put_bytes(detail::bytes_of(values));
    else
      for (const typename T::value_type& value : values) out.put_element(value);
  }
  static void read(ObjectReader& in, T& values) {
    values.clear();
    if constexpr (detail::GrownAtOnce<T>) {
      values.resize(in.get_count(sizeof(Element)));
      in.get_bytes(detail::writable_bytes_of(values));
    } else {
      // Without room made for all of them: an element may need more memory than bytes.
      const std::size_t count = in.get_count();
      for (std::size_t i = 0; i < count; ++i) {
        Element value{};
        in.get_element(value);
        values.insert(values.end(), std::move(value));
        if (values.size() == i) in.fail("a key is in there twice");
      }
    }
  }
};

/// What can be sent: a type that has a format, and that can be made without arguments and moved.
template <class T>
concept Object = std::default_initializable<T> && std::movable<T> &&
                 requires(ObjectWriter& out, ObjectReader& in, const T& given, T& taken) {
                   ObjectFormat<T>::write(out, given);
                   ObjectFormat<T>::read(in, taken);
                 };

namespace detail {

/// The beginning of the bytes of a value: this, and a number for its type.
inline constexpr std::size_t object_header_bytes = 16;
HYMN_API void put_object_header(ObjectWriter& out, const std::type_info& type, std::size_t size);
/// Throws PeerError where it is damaged, UsageError where the value has another type.
HYMN_API void get_object_header(ObjectReader& in, const std::type_info& type, std::size_t size);

}  // namespace detail

/// The value as bytes, with its type before it, as the calls of objects.hpp send it. For files and
/// stores, too, that are read by the same program on the same kind of machine. Throws UsageError
/// where values are nested more deeply than max_object_depth, and what the type's format throws.
template <Object T>
std::vector<std::byte> pack_object(const T& value) {
  ObjectWriter out;
  detail::put_object_header(out, typeid(T), sizeof(T));
  out.put(value);
  return out.take();
}

/// Back again, from bytes that anybody may have written. Throws UsageError where another type was
/// packed, PeerError where the bytes are damaged, std::bad_alloc, and what the type's format
/// throws.
template <Object T>
T unpack_object(std::span<const std::byte> bytes) {
  ObjectReader in(bytes);
  detail::get_object_header(in, typeid(T), sizeof(T));
  T value{};
  in.get(value);
  if (in.left() > 0) in.fail("it is longer than its value");
  return value;
}

}  // namespace hymn
