// Agents of tests: worker0, worker1, …
#pragma once

#include <string>

#include "hymn/rpc.hpp"
#include "tests/support/rank_test.hpp"

namespace hymn::test {

inline std::string worker_name(int rank) { return "worker" + std::to_string(rank); }

inline rpc::Agent make_agent(World& world, const rpc::AgentOptions& options = {}) {
  return rpc::Agent(world, worker_name(world.rank()), options);
}

}  // namespace hymn::test
