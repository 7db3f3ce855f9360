#include "recorder/rank_list.hpp"

#include <fmt/format.h>

#include <charconv>

namespace hymn {
namespace {

constexpr int most_ranks = 1 << 20;

/// Takes a number off the front; false: there is none.
bool take_number(std::string_view& text, int& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > most_ranks) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_letter(std::string_view& text, char letter) {
  if (!text.starts_with(letter)) return false;
  text.remove_prefix(1);
  return true;
}

}  // namespace

std::string pack_ranks(std::span<const int> ranks) {
  std::string text;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t end = i + 1;
    const int step = end < ranks.size() ? ranks[end] - ranks[i] : 1;
    // A series ascends; a group may be ordered otherwise.
    while (step > 0 && end < ranks.size() && ranks[end] - ranks[end - 1] == step) ++end;
    // Two that are apart are no series: the second may begin one.
    if (step != 1 && end - i == 2) end = i + 1;
    if (!text.empty()) text += ',';
    text += std::to_string(ranks[i]);
    if (end - i > 1) text += fmt::format("-{}", ranks[end - 1]);
    if (end - i > 1 && step != 1) text += fmt::format(":{}", step);
    i = end;
  }
  return text;
}

std::optional<std::vector<int>> unpack_ranks(std::string_view text) {
  std::vector<int> ranks;
  do {
    int first = 0;
    if (!take_number(text, first)) return std::nullopt;
    int last = first;
    int step = 1;
    if (take_letter(text, '-') && !take_number(text, last)) return std::nullopt;
    if (take_letter(text, ':') && (!take_number(text, step) || step == 0)) return std::nullopt;
    for (int rank = first; rank <= last; rank += step) ranks.push_back(rank);
    if (ranks.size() > static_cast<std::size_t>(most_ranks)) return std::nullopt;
  } while (take_letter(text, ','));
  return text.empty() ? std::optional(ranks) : std::nullopt;
}

}  // namespace hymn
