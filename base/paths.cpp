#include "base/paths.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "hymn/error.hpp"

namespace hymn {

PathPolicy PathPolicy::parse(std::string_view text, std::string_view source) {
  PathPolicy policy;
  policy.text_ = text;
  if (text.empty()) return policy;
  std::string_view rest = text;
  if (rest.front() == '^') {
    policy.forbids_ = true;
    rest.remove_prefix(1);
  }
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view name = rest.substr(0, comma);
    if (std::find(paths::all.begin(), paths::all.end(), name) == paths::all.end()) {
      throw ConfigError(
          fmt::format("{}='{}': there is no path '{}'", source, text, name),
          {.remedy = fmt::format("give a list of {}, or '^' and the ones to leave out",
                                 fmt::join(paths::all, ", "))});
    }
    policy.names_.emplace_back(name);
    if (comma == std::string_view::npos) return policy;
    rest.remove_prefix(comma + 1);
  }
}

bool PathPolicy::allows(std::string_view path) const {
  if (names_.empty()) return true;
  const bool named = std::find(names_.begin(), names_.end(), path) != names_.end();
  return named != forbids_;
}

}  // namespace hymn
