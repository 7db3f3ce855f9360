// Messages of a group carried by the Exchange of its world: works wherever a World can be made.
#pragma once

#include <functional>
#include <vector>

#include "hymn/exchange.hpp"
#include "p2p/message_port.hpp"

namespace hymn {

/// `exchange` is the group's own; `ranks` are its members as ranks of it. `drop` is told how many
/// messages were taken from the exchange, for a probe, and not received when the port has gone.
std::shared_ptr<MessagePort> make_exchange_port(std::shared_ptr<Exchange> exchange,
                                                std::vector<int> ranks,
                                                std::function<void(std::size_t)> drop = {});

/// What the upper two bits of a tag say on the exchange of a group. The lower ones are the user's
/// tag, or a collective's number, which is less than 2^56.
namespace group_tags {
inline constexpr std::uint64_t of_making = 0;  ///< how the group is made: a few numbers
inline constexpr std::uint64_t of_collectives = 1ull << 62;
inline constexpr std::uint64_t of_user = 2ull << 62;
inline constexpr std::uint64_t of_checks = 3ull << 62;
}  // namespace group_tags

}  // namespace hymn
