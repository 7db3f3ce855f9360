// Which key of a dump fills which value: tables for the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "tools/trace/dump.hpp"

namespace hymn::trace {

/// A value in the JSON that is neither an object nor a list.
class Scalar {
 public:
  static Scalar null() { return {}; }
  static Scalar of(bool value);
  static Scalar of(std::int64_t value);
  static Scalar of(double value);
  static Scalar of(std::string& text);

  /// Of another kind than asked for, each answers with the given value. Numbers with a fraction are
  /// cut, those too large for 64 bits become the largest.
  std::int64_t whole(std::int64_t otherwise) const;
  std::optional<std::int64_t> maybe_whole() const;
  std::optional<double> maybe_real() const;
  bool flag(bool otherwise) const;
  /// Fit for a terminal; empty when it is no text.
  std::string text() const;

 private:
  enum class Kind : std::uint8_t { null, boolean, whole, real, text };
  Kind kind_ = Kind::null;
  std::int64_t whole_ = 0;
  double real_ = 0;
  std::string* text_ = nullptr;
};

template <class T>
struct Field {
  std::string_view key;
  void (*take)(T&, const Scalar&);
};

std::span<const Field<Dump>> dump_fields();
std::span<const Field<GroupConfig>> group_fields();
std::span<const Field<PeerReport>> peer_fields();
std::span<const Field<CallReport>> call_fields();
std::span<const Field<MakingReport>> making_fields();
std::span<const Field<Entry>> entry_fields();
std::span<const Field<CallSite>> site_fields();

}  // namespace hymn::trace
