// A dump's way into its file.
#pragma once

#include <string>
#include <string_view>

#include "base/private.hpp"

namespace hymn {

/// `<base><rank>`
HYMN_PRIVATE std::string dump_path(std::string_view base, int rank);

/// Replaces the file in one step: whoever looks sees the old one, or all of the new one. It can be
/// read by its owner alone. Returns 0, or errno, and leaves nothing behind then.
int replace_file(const std::string& path, std::string_view text);

/// The same; throws ResourceError.
HYMN_PRIVATE void write_dump(const std::string& path, std::string_view text);

}  // namespace hymn
