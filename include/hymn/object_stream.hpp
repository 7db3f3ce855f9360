// The bytes of values: what formats write to, and read from. docs/objects.md has the format.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "hymn/export.hpp"

namespace hymn {

/// How a value of type T is written and read. What both throw is thrown by the call that they
/// serve.
template <class T>
struct ObjectFormat;

/// So deep may values be nested: more is an error of the rank that sends them. A type that contains
/// itself, and is large, needs that much of the stack of who reads it.
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
    const std::size_t before = size();
    put_one(value);
    pad(before);
  }
  /// A byte, where nothing has been put since there were so many.
  void pad(std::size_t before) {
    if (size() == before) bytes_.push_back({});
  }

  /// Around each value: for formats that call none of another. Throws UsageError where values are
  /// nested too deeply.
  void enter();
  void leave() { --depth_; }

  /// Bytes so far.
  std::size_t size() const { return bytes_.size(); }

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
    const std::size_t before = left();
    get_one(value);
    skip_padding(before);
  }
  /// What ObjectWriter::pad() has put; `before`: what was left then.
  void skip_padding(std::size_t before) {
    if (left() == before) get_bytes(std::span(&padding_, 1));
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
concept HasObjectFormat = requires { sizeof(ObjectFormat<T>); };

/// One value inside another, until it is written or read, or has failed.
template <class Stream>
class NestedObject {
 public:
  explicit NestedObject(Stream& stream) : stream_(stream) { stream_.enter(); }
  ~NestedObject() { stream_.leave(); }
  NestedObject(const NestedObject&) = delete;
  NestedObject& operator=(const NestedObject&) = delete;

 private:
  Stream& stream_;
};

}  // namespace detail

template <class T>
void ObjectWriter::put_one(const T& value) {
  static_assert(detail::HasObjectFormat<T>,
                "hymn does not know how to send values of this type: give it object_fields(), or a "
                "hymn::ObjectFormat (docs/objects.md). Pointers and views are not sent.");
  const detail::NestedObject nested(*this);
  ObjectFormat<T>::write(*this, value);
}

template <class T>
void ObjectReader::get_one(T& value) {
  static_assert(detail::HasObjectFormat<T>, "hymn does not know how to read values of this type");
  const detail::NestedObject nested(*this);
  ObjectFormat<T>::read(*this, value);
}

}  // namespace hymn
