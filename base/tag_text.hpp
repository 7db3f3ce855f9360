// Tags of groups in what people read.
#pragma once

#include <string>
#include <string_view>

#include "base/private.hpp"

namespace hymn {

/// A long tag, as groups of meshes have, without its middle: so many bytes at most.
inline constexpr std::size_t longest_shown_tag = 48;
std::string shown_tag(std::string_view tag);
/// " with tag 'pipeline'"; empty where there is none.
HYMN_PRIVATE std::string with_tag(std::string_view tag);

}  // namespace hymn
