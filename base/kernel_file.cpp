#include "base/kernel_file.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/descriptor.hpp"

namespace hymn {

std::optional<std::string> kernel_file(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return std::nullopt;
  std::string text;
  std::array<char, 4096> piece;  // NOLINT(cppcoreguidelines-pro-type-member-init): read() fills it
  for (;;) {
    const ssize_t got = ::read(file.number(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::nullopt;
    if (got == 0) return text;
    text.append(piece.data(), static_cast<std::size_t>(got));
  }
}

std::string first_line_of(const std::string& path) {
  const std::string text = kernel_file(path).value_or("");
  return text.substr(0, text.find('\n'));
}

std::string_view next_part(std::string_view& text, char by) {
  const std::string_view part = text.substr(0, text.find(by));
  text.remove_prefix(std::min(text.size(), part.size() + 1));
  return part;
}

}  // namespace hymn
