#include "control/run_handlers.hpp"

#include <fmt/format.h>

#include "base/helper_thread.hpp"

namespace hymn {

void run_handlers(asio::io_context& io, const LinkLog& log) {
  const auto tell = [&log](std::string_view why) {
    if (log) log(fmt::format("a message could not be handled: {}", why));
  };
  while (!run_guarded([&io] { io.run(); }, tell)) continue;
}

}  // namespace hymn
