#include "recorder/flight_dump_pickle.hpp"

#include <bit>
#include <cstdint>
#include <limits>

namespace hymn {
namespace {

using Json = nlohmann::ordered_json;

/// Writes the opcodes of pickletools, by their letters.
class Pickler {
 public:
  std::string pickle(const Json& value) {
    text_ = "\x80\x02";
    put(value);
    text_ += '.';
    return std::move(text_);
  }

 private:
  void put(const Json& value) {
    switch (value.type()) {
      case Json::value_t::null:
      case Json::value_t::binary:
      case Json::value_t::discarded:
        text_ += 'N';
        return;
      case Json::value_t::boolean:
        text_ += value.get<bool>() ? '\x88' : '\x89';
        return;
      case Json::value_t::number_integer:
        return put(value.get<std::int64_t>());
      case Json::value_t::number_unsigned:
        return put(value.get<std::uint64_t>());
      case Json::value_t::number_float:
        return put(value.get<double>());
      case Json::value_t::string:
        return put(value.get_ref<const std::string&>());
      case Json::value_t::array:
        text_ += "](";
        for (const Json& element : value) put(element);
        text_ += 'e';
        return;
      case Json::value_t::object:
        text_ += "}(";
        for (const auto& [key, element] : value.items()) {
          put(key);
          put(element);
        }
        text_ += 'u';
        return;
    }
  }

  void put(std::int64_t value) {
    if (value == static_cast<std::int32_t>(value)) {
      text_ += 'J';
      return put_bytes(static_cast<std::uint64_t>(value), 4);
    }
    text_ += "\x8a\x08";
    put_bytes(static_cast<std::uint64_t>(value), 8);
  }

  void put(std::uint64_t value) {
    if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return put(static_cast<std::int64_t>(value));
    text_ += "\x8a\x09";
    put_bytes(value, 8);
    text_ += '\0';  // it has a sign
  }

  void put(double value) {
    text_ += 'G';
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (int shift = 56; shift >= 0; shift -= 8) text_ += static_cast<char>(bits >> shift & 0xff);
  }

  void put(const std::string& value) {
    text_ += 'X';
    put_bytes(value.size(), 4);
    text_ += value;
  }

  void put_bytes(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> 8 * i & 0xff);
  }

  std::string text_;
};

}  // namespace

std::string pickle(const Json& value) { return Pickler().pickle(value); }

}  // namespace hymn
