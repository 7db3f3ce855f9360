// Messages of a group by the connections of its world.
#pragma once

#include <memory>
#include <vector>

#include "p2p/message_port.hpp"
#include "p2p/tcp/tcp_net.hpp"

namespace hymn {

/// `ranks` are the group's members as ranks of the world; the net has opened the group.
std::shared_ptr<MessagePort> make_tcp_port(std::shared_ptr<tcp::Net> net, std::uint64_t group,
                                           std::vector<int> ranks);

}  // namespace hymn
