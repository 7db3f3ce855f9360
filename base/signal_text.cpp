#include "base/signal_text.hpp"

#include <fmt/format.h>

#include <cstring>

namespace hymn {

std::string killed_by(int signal) {
  const char* const name = sigabbrev_np(signal);
  return fmt::format("killed by signal {}{}", signal,
                     name == nullptr ? "" : fmt::format(" (SIG{})", name));
}

}  // namespace hymn
