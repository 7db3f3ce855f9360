#include "collectives/dispatch/algo_policy.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "hymn/error.hpp"

namespace hymn {
namespace {

// "reduce_scatter_mpi" is about reduce_scatter, not about reduce.
std::string_view collective_of(std::string_view algorithm) {
  std::string_view longest;
  for (const OpType type : all_op_types) {
    const std::string_view name = to_string(type);
    if (is_collective(type) && algorithm.starts_with(name) &&
        algorithm.substr(name.size()).starts_with('_') && name.size() > longest.size())
      longest = name;
  }
  return longest;
}

}  // namespace

AlgoPolicy AlgoPolicy::parse(std::string_view text, std::string_view source) {
  AlgoPolicy policy;
  policy.text_ = text;
  policy.source_ = source;
  if (text.empty()) return policy;
  policy.forbids_ = text.front() == '^';
  std::string_view rest = text.substr(policy.forbids_ ? 1 : 0);
  while (true) {
    const std::size_t comma = rest.find(',');
    if (comma == 0 || rest.empty())
      throw ConfigError(
          fmt::format("{}='{}': a name is missing", source, text),
          {.remedy = "give a list such as all_reduce_mpi,broadcast_pairwise, or '^' and a list"});
    policy.names_.emplace_back(rest.substr(0, comma));
    if (comma == std::string_view::npos) return policy;
    rest.remove_prefix(comma + 1);
  }
}

void AlgoPolicy::check_names(const std::set<std::string>& known) const {
  for (const std::string& name : names_)
    if (!known.contains(name))
      throw ConfigError(fmt::format("{}='{}': there is no algorithm '{}'", source_, text_, name),
                        {.remedy = fmt::format("there are {}", fmt::join(known, ", "))});
}

std::vector<std::string> AlgoPolicy::only_for(OpType type) const {
  std::vector<std::string> only;
  if (forbids_ || !is_collective(type)) return only;
  std::copy_if(names_.begin(), names_.end(), std::back_inserter(only),
               [type](const std::string& name) { return collective_of(name) == to_string(type); });
  return only;
}

bool AlgoPolicy::allows(OpType type, std::string_view algorithm) const {
  if (names_.empty() || !is_collective(type)) return true;
  const bool named = std::find(names_.begin(), names_.end(), algorithm) != names_.end();
  return forbids_ ? !named : named || only_for(type).empty();
}

}  // namespace hymn
