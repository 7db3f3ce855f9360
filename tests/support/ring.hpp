// The neighbours of a rank in the ring of all ranks.
#pragma once

#include "hymn/hymn.hpp"

namespace hymn::test {

inline int next_of(const World& world) { return (world.rank() + 1) % world.size(); }
inline int previous_of(const World& world) {
  return (world.rank() + world.size() - 1) % world.size();
}

}  // namespace hymn::test
