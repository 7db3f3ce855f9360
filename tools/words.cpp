// Makes text of unknown origin fit to be shown.
#include "tools/words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace hymn {

namespace {

// The length of the UTF-8 sequence that starts here, 0 when it is none that XML may hold.
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x20 || first == 0x7f) return 0;
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  unsigned code = first & (0xffu >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr std::array<unsigned, 5> least{0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  const bool control = code < 0xa0 || (code >= 0x2028 && code < 0x202f) ||
                       (code >= 0x2066 && code < 0x206a);  // C1, line and direction controls
  return code < least[length] || code > 0x10ffff || surrogate || control ||
                 (code & 0xfffe) == 0xfffe
             ? 0
             : length;
}

}  // namespace

std::string printable(std::string_view text, std::size_t most) {
  std::string clean;
  for (std::size_t count = 0; !text.empty(); ++count) {
    if (count == most) return clean + "…";
    const std::size_t length = sequence_length(text);
    if (length == 0)
      clean += "\xef\xbf\xbd";  // the sign for what cannot be shown
    else
      clean += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return clean;
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace hymn
