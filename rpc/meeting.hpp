// How the workers of an agent's world find each other: in a store.
#pragma once

#include <memory>
#include <string>

#include "hymn/store.hpp"
#include "rpc/agent_state.hpp"

namespace hymn::rpc::detail {

/// All ranks call it, with stores of the same contents.
Acquaintance meet(const std::shared_ptr<Store>& store, const std::string& name, int rank, int size,
                  const AgentOptions& options);

}  // namespace hymn::rpc::detail
