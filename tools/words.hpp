// Text of unknown origin, and counts, in words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace hymn {

/// Text of unknown origin made fit for a terminal and for XML: valid UTF-8, control characters
/// replaced, cut to `most` characters.
std::string printable(std::string_view text, std::size_t most = 120);

/// "2 packages", "1 core"
std::string counted(std::size_t count, std::string_view noun);

}  // namespace hymn
