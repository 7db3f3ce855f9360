// Shared memory is made real before it is touched: a page that cannot be had when it is touched
// kills the process (SIGBUS), and one that should not have been had makes the kernel kill another.
#pragma once

#include "p2p/shm/nameless_memory.hpp"

namespace hymn {

struct Reservation {
  std::size_t bytes = 0;  ///< from the beginning; whole pages where they are fewer than asked for
  std::string shortage;   ///< why these are fewer than were asked for, and the remedy
};

/// What helps: all of the range or nothing, or whatever can be had from its beginning.
enum class Need : unsigned char { all, some };

/// Makes a range of a mapping real, near the calling thread, as far as memory allows. `sharers`
/// processes of this host are expected to ask for as much at the same time. `memory` is only needed
/// on kernels that cannot populate a mapping. Thread-safe.
Reservation reserve_memory(const SharedMapping& mapping, const Descriptor& memory,
                           std::size_t offset, std::size_t bytes, int sharers, Need need);

/// The same for whole pages that nobody shares; false: there is not memory enough. Thread-safe.
bool reserve_private(std::byte* begin, std::size_t bytes);

/// Whether reserve_memory() can do without the descriptor; makes the mapping's first page real.
bool can_populate(const SharedMapping& mapping) noexcept;

}  // namespace hymn
