// Lists of ranks in few letters, for memory of fixed size.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hymn {

/// Of ranks in ascending order: "0-3,8", and where they are equally far apart "0-56:8".
std::string pack_ranks(std::span<const int> ranks);
/// Nothing for what is no such list, or one of more than a million.
std::optional<std::vector<int>> unpack_ranks(std::string_view text);

}  // namespace hymn
