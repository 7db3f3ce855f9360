// How a value of any type becomes bytes, and bytes a value. docs/objects.md has the format.
//
// Known are: types that can be copied byte by byte, std::string, std::optional, std::pair,
// std::tuple, arrays, and the containers of the standard library that know their size; all of them
// of each other, and of types of one's own. Such a type says what it is made of
//
//     struct Particle {
//       std::string name;
//       std::vector<double> place;
//       static auto object_fields(auto& self) { return std::tie(self.name, self.place); }
//     };
//
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

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "hymn/export.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn {

/// How a value of type T is written and read. What both throw is thrown by the call that they
/// serve.
template <class T>
struct ObjectFormat;

/// So deep may values lie in each other: more is an error of the rank that sends them.
inline constexpr int max_object_depth = 1000;

/// Puts values behind one another. Not thread-safe.
class HYMN_API ObjectWriter {
 public:
  /// Each in its format.
  template <class... Values>
  void put(const Values&... values) {
    (put_one(values), ...);
  }
  void put_bytes(std::span<const std::byte> bytes);
  /// Of elements that follow.
  void put_count(std::size_t count);
  /// One of these: takes a byte at least, so that a count can be checked before anything is read.
  template <class T>
  void put_element(const T& value) {
    const std::size_t before = bytes_.size();
    put_one(value);
    if (bytes_.size() == before) bytes_.push_back({});
  }

  /// Around each value: for formats that call none of another. Throws UsageError where values lie
  /// too deep in each other.
  void enter();
  void leave() { --depth_; }

  /// All bytes; nothing is left.
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  template <class T>
  void put_one(const T& value);

  std::vector<std::byte> bytes_;
  int depth_ = 0;
};

/// Reads them back, from bytes that anybody may have written: what they do not hold is a PeerError.
/// The bytes must outlive it. Not thread-safe.
class HYMN_API ObjectReader {
 public:
  explicit ObjectReader(std::span<const std::byte> bytes) : left_(bytes) {}

  /// Each in its format.
  template <class... Values>
  void get(Values&... values) {
    (get_one(values), ...);
  }
  void get_bytes(std::span<std::byte> bytes);
  /// Of elements of which each takes so many bytes at least; no more than can follow.
  std::size_t get_count(std::size_t bytes_each = 1);
  template <class T>
  void get_element(T& value) {
    const std::size_t before = left_.size();
    get_one(value);
    if (left_.size() == before) get_bytes(std::span(&padding_, 1));
  }

  /// As ObjectWriter's; a PeerError here.
  void enter();
  void leave() { --depth_; }

  /// Bytes that have not been read.
  std::size_t left() const { return left_.size(); }
  /// Throws PeerError: the value is damaged, because of `what`. For formats that find out more.
  [[noreturn]] void fail(const std::string& what) const;

 private:
  template <class T>
  void get_one(T& value);

  std::span<const std::byte> left_;
  std::byte padding_{};
  int depth_ = 0;
};

namespace detail {

template <class T>
concept HasObjectFields = requires(T& value, const T& given) {
  T::object_fields(value);
  T::object_fields(given);
};

template <class T>
concept GrowingRange =
    std::ranges::range<T> && requires(T& values, typename T::value_type&& value) {
      values.clear();
      values.insert(values.end(), std::move(value));
      { values.size() } -> std::convertible_to<std::size_t>;
    };

template <class T>
concept TupleLike = requires { std::tuple_size<T>::value; };

template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;

/// What is done with a type that says nothing itself.
enum class ObjectKind : unsigned char {
  none,  ///< unknown, or it only points to what would have to be sent
  fields,
  boolean,
  optional,
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
  else if constexpr (GrowingRange<T>)
    return ObjectKind::container;
  else if constexpr (std::is_array_v<T> || (TupleLike<T> && std::ranges::range<T>))
    return ObjectKind::array;
  else if constexpr (TupleLike<T>)
    return ObjectKind::tuple;
  else if constexpr (std::ranges::range<T> || std::is_pointer_v<T> || std::is_null_pointer_v<T> ||
                     std::is_member_pointer_v<T>)
    return ObjectKind::none;
  else if constexpr (std::is_trivially_copyable_v<T>)
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
                       std::derived_from<ObjectFormat<std::ranges::range_value_t<Range>>,
                                         BytesFormat<std::ranges::range_value_t<Range>>>;

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
    if constexpr (detail::CopiedAtOnce<T>)
      out.put_bytes(detail::bytes_of(values));
    else
      for (const typename T::value_type& value : values) out.put_element(value);
  }
  static void read(ObjectReader& in, T& values) {
    values.clear();
    if constexpr (detail::CopiedAtOnce<T>) {
      values.resize(in.get_count(sizeof(Element)));
      in.get_bytes(detail::writable_bytes_of(values));
    } else {
      // Without room made for all of them: an element may need more memory than bytes.
      for (std::size_t left = in.get_count(); left > 0; --left) {
        Element value{};
        in.get_element(value);
        values.insert(values.end(), std::move(value));
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

template <class T>
concept HasObjectFormat = requires { sizeof(ObjectFormat<T>); };

/// The beginning of the bytes of a value: this, and a number for its type.
inline constexpr std::size_t object_header_bytes = 16;
HYMN_API void put_object_header(ObjectWriter& out, const std::type_info& type, std::size_t size);
/// Throws PeerError where it is damaged, UsageError where the value has another type.
HYMN_API void get_object_header(ObjectReader& in, const std::type_info& type, std::size_t size);

}  // namespace detail

template <class T>
void ObjectWriter::put_one(const T& value) {
  static_assert(detail::HasObjectFormat<T>,
                "hymn does not know how to send values of this type: give it object_fields(), or a "
                "hymn::ObjectFormat (docs/objects.md). Pointers and views are not sent.");
  enter();
  ObjectFormat<T>::write(*this, value);
  leave();
}

template <class T>
void ObjectReader::get_one(T& value) {
  static_assert(detail::HasObjectFormat<T>, "hymn does not know how to read values of this type");
  enter();
  ObjectFormat<T>::read(*this, value);
  leave();
}

/// The value as bytes, with its type before it, as the calls of objects.hpp send it. For files and
/// stores, too, that are read by the same program on the same kind of machine. Throws UsageError
/// where values lie deeper in each other than max_object_depth, and what the type's format throws.
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
