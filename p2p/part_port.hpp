// A port whose peers have other numbers than those of the port below it: of some members of a group
// as a group of their own, or the other way round.
#pragma once

#include <vector>

#include "p2p/message_port.hpp"

namespace hymn {

/// Peers of the new port are indices in `members`, which are ranks of `port`; a negative one cannot
/// be sent to. Operations on it must have sequence numbers that none on `port` has between the same
/// ranks. It has no any_source.
std::shared_ptr<MessagePort> make_part_port(std::shared_ptr<MessagePort> port,
                                            std::vector<int> members);

}  // namespace hymn
