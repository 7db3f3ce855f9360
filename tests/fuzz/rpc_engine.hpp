// How a fuzz target gives an agent what it would have read.
#pragma once

#include <functional>
#include <string>

#include "rpc/message.hpp"

namespace hymn::fuzz {

struct RpcEvents {
  std::function<void(int rank, rpc::detail::Message message)> message{};
  std::function<void(int rank, const std::string& why)> lost{};
};

/// Of the agent that was made last.
RpcEvents& rpc_events();

}  // namespace hymn::fuzz
