// Messages of a group carried by the Exchange of the bootstrap: works wherever a World can be made.
#pragma once

#include <vector>

#include "collectives/pairwise/message_port.hpp"
#include "hymn/exchange.hpp"

namespace hymn {

/// `ranks` are the group's members as ranks of the exchange; `uid` keeps groups apart.
std::shared_ptr<MessagePort> make_exchange_port(std::shared_ptr<Exchange> exchange,
                                                std::vector<int> ranks, std::uint64_t uid);

/// Tags below this are for the bootstrap's own use of an Exchange.
inline constexpr std::uint64_t first_data_tag = 1ull << 62;

}  // namespace hymn
