#include "runtime/group/call_title.hpp"

#include <fmt/format.h>

namespace hymn::detail {

std::string title_of(const PendingOp& op) {
  return fmt::format("{} #{}", to_string(op.type), op.sequence);
}

}  // namespace hymn::detail
