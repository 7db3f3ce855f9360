#include "runtime/rank/some_names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace hymn {

std::string some_of(std::vector<std::string> names) {
  constexpr std::size_t most_named = 8;
  const std::size_t all = names.size();
  if (all > most_named) {
    names.resize(most_named);
    names.push_back(fmt::format("and {} more", all - most_named));
  }
  return fmt::format("{}", fmt::join(names, "; "));
}

}  // namespace hymn
