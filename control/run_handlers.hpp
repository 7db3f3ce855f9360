// What a thread does that carries messages.
#pragma once

#include <asio/io_context.hpp>

#include "control/link_server.hpp"

namespace hymn {

/// Calls handlers until there is nothing more to do. What one of them throws is logged; the others
/// go on, so that a message that cannot be handled is lost, and not all that come after it.
void run_handlers(asio::io_context& io, const LinkLog& log);

}  // namespace hymn
