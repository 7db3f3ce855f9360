// What calls that belong together must have in common.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hymn/program.hpp"

namespace hymn::functional::detail {

/// A collective, or a call, of one rank.
struct CallOf {
  const Program& program;
  std::size_t node;
  const ProgramNode& what() const { return program.nodes[node]; }
};

/// Of two ranks that come to the same call on a group of these ranks; empty: they match.
std::string difference_of(const CallOf& one, const CallOf& other, const std::vector<int>& ranks);

/// Whether a call that matches one of those that belong to it matches all.
bool one_tells_all(const CallOf& call);

}  // namespace hymn::functional::detail
