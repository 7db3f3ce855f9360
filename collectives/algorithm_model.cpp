#include "collectives/algorithm_model.hpp"

#include <fmt/format.h>

#include "base/kept_name.hpp"

namespace hymn {

std::string_view algorithm_name(OpType type, std::string_view method) {
  const std::string_view what = is_collective(type) ? to_string(type) : "send_recv";
  return kept_name(fmt::format("{}_{}", what, method));
}

}  // namespace hymn
