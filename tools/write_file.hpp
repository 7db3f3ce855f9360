// Writes a file as a whole or not at all.
#pragma once

#include <string>
#include <string_view>

namespace hymn {

/// "-" is the standard output. A file appears, or is replaced, only when all is written; what is
/// not a regular file, such as a pipe, is written directly. Throws ResourceError that names the
/// file.
void write_file(const std::string& path, std::string_view content);

}  // namespace hymn
