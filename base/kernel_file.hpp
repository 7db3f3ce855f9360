// Small files that the kernel makes while they are read: /proc, /sys, cgroups. Streams take several
// times as long as the kernel does, and worlds are made of dozens of such reads.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hymn {

/// All of it; nothing where it cannot be opened or read. Thread-safe.
std::optional<std::string> kernel_file(const std::string& path);

/// Its first line, "" where there is none. Thread-safe.
std::string first_line_of(const std::string& path);

/// Takes what stands before the next `by`, and both, out of `text`: by '\n' line by line, by ' '
/// word by word.
std::string_view next_part(std::string_view& text, char by);

}  // namespace hymn
