// Messages between some members of a group, over a port between all of them.
#pragma once

#include <vector>

#include "p2p/message_port.hpp"

namespace hymn {

/// Peers of the new port are indices in `members`, which are ranks of `port`. Operations on it must
/// have sequence numbers that none on `port` has between the same ranks. It has no any_source.
std::shared_ptr<MessagePort> make_part_port(std::shared_ptr<MessagePort> port,
                                            std::vector<int> members);

}  // namespace hymn
