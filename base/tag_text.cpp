#include "base/tag_text.hpp"

#include <fmt/format.h>

namespace hymn {
namespace {

constexpr std::string_view gap = "…";
constexpr std::size_t shown_end = 16;
constexpr std::size_t shown_beginning = longest_shown_tag - shown_end - gap.size();

// Letters in UTF-8 stay whole.
bool is_inside_letter(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

}  // namespace

std::string shown_tag(std::string_view tag) {
  if (tag.size() <= longest_shown_tag) return std::string(tag);
  std::size_t first = shown_beginning;
  std::size_t last = tag.size() - shown_end;
  while (first > 0 && is_inside_letter(tag[first])) --first;
  while (last < tag.size() && is_inside_letter(tag[last])) ++last;
  return fmt::format("{}{}{}", tag.substr(0, first), gap, tag.substr(last));
}

std::string with_tag(std::string_view tag) {
  return tag.empty() ? std::string() : fmt::format(" with tag '{}'", shown_tag(tag));
}

}  // namespace hymn
