// With this header the calls of objects.hpp take all types that cereal can write and read, and that
// hymn does not know: include it, and those of cereal's headers that the type needs. It needs
// cereal (1.3), which hymn does not.
//
// A type that hymn knows as well, since it can be copied byte by byte, goes through cereal by
//
//     template <>
//     struct hymn::ObjectFormat<Thing> : hymn::CerealFormat<Thing> {};
#pragma once

#include "hymn/standard.hpp"  // first

#include <cereal/cereal.hpp>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "hymn/objects.hpp"

namespace hymn {

/// An archive of cereal's that ends in the bytes of an object. What takes no bytes takes one, so
/// that no count is larger than the bytes behind it.
class CerealWriter : public cereal::OutputArchive<CerealWriter, cereal::AllowEmptyClassElision> {
 public:
  explicit CerealWriter(ObjectWriter& out) : OutputArchive(this), out_(out) {}
  ObjectWriter& out() { return out_; }

  void begin() {
    out_.enter();
    begun_.push_back(out_.size());
  }
  void end() {
    out_.pad(begun_.back());
    begun_.pop_back();
    out_.leave();
  }

 private:
  ObjectWriter& out_;
  std::vector<std::size_t> begun_;
};

/// And one that begins there, and believes no size that it reads. What is wrong is a PeerError.
class CerealReader : public cereal::InputArchive<CerealReader, cereal::AllowEmptyClassElision> {
 public:
  explicit CerealReader(ObjectReader& in) : InputArchive(this), in_(in) {}
  ObjectReader& in() { return in_; }

  void begin() {
    in_.enter();
    begun_.push_back(in_.left());
  }
  void end() {
    in_.skip_padding(begun_.back());
    begun_.pop_back();
    in_.leave();
  }

 private:
  ObjectReader& in_;
  std::vector<std::size_t> begun_;
};

// What cereal looks for beside an archive.

template <class T>
void prologue(CerealWriter& archive, const T& /*value*/) {
  archive.begin();
}
template <class T>
void epilogue(CerealWriter& archive, const T& /*value*/) {
  archive.end();
}
template <class T>
void prologue(CerealReader& archive, const T& /*value*/) {
  archive.begin();
}
template <class T>
void epilogue(CerealReader& archive, const T& /*value*/) {
  archive.end();
}

template <class T>
  requires std::is_arithmetic_v<T>
void CEREAL_SAVE_FUNCTION_NAME(CerealWriter& archive, const T& number) {
  archive.out().put(number);
}
template <class T>
  requires std::is_arithmetic_v<T>
void CEREAL_LOAD_FUNCTION_NAME(CerealReader& archive, T& number) {
  archive.in().get(number);
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(CerealWriter& archive, const cereal::NameValuePair<T>& named) {
  archive(named.value);
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(CerealReader& archive, cereal::NameValuePair<T>& named) {
  archive(named.value);
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(CerealWriter& archive, const cereal::SizeTag<T>& tag) {
  archive.out().put_count(tag.size);
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(CerealReader& archive, cereal::SizeTag<T>& tag) {
  tag.size = archive.in().get_count();
}

template <class T>
void CEREAL_SAVE_FUNCTION_NAME(CerealWriter& archive, const cereal::BinaryData<T>& data) {
  archive.out().put_bytes({static_cast<const std::byte*>(data.data), data.size});
}
template <class T>
void CEREAL_LOAD_FUNCTION_NAME(CerealReader& archive, cereal::BinaryData<T>& data) {
  archive.in().get_bytes({static_cast<std::byte*>(data.data), data.size});
}

template <class T>
struct CerealFormat {
  static void write(ObjectWriter& out, const T& value) {
    CerealWriter archive(out);
    archive(value);
  }
  static void read(ObjectReader& in, T& value) {
    CerealReader archive(in);
    try {
      archive(value);
    } catch (const cereal::Exception& error) {
      in.fail(error.what());
    }
  }
};

template <class T>
  requires(detail::object_kind<T> == detail::ObjectKind::none &&
           cereal::traits::is_output_serializable<T, CerealWriter>::value &&
           cereal::traits::is_input_serializable<T, CerealReader>::value)
struct ObjectFormat<T> : CerealFormat<T> {};

}  // namespace hymn

// So that types of theirs that are polymorphic can be written and read, too.
CEREAL_REGISTER_ARCHIVE(hymn::CerealWriter)
CEREAL_REGISTER_ARCHIVE(hymn::CerealReader)
CEREAL_SETUP_ARCHIVE_TRAITS(hymn::CerealReader, hymn::CerealWriter)
