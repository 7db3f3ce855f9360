// Why a group was given up, or a call of it failed.
#pragma once

#include <string>
#include <vector>

namespace hymn::detail {

struct GroupFailure {
  std::string reason;
  std::vector<int> missing{};  ///< global ranks
};

}  // namespace hymn::detail
