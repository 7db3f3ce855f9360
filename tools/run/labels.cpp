#include "tools/run/labels.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>

namespace hymn {
namespace {

// A line without an end is cut there.
constexpr std::size_t longest_line = 64 * 1024;

/// False where there is no room for it. Whoever has closed it does not want it.
bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return errno == EPIPE;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Labels::Labels(std::vector<RankProcesses::Output>& outputs) {
  for (RankProcesses::Output& output : outputs) {
    sources_.push_back({output.rank, std::move(output.out), STDOUT_FILENO});
    sources_.push_back({output.rank, std::move(output.error), STDERR_FILENO});
  }
  for (const Source& source : sources_)
    ::fcntl(source.pipe.number(), F_SETFL, O_NONBLOCK);  // the reading end is this process's alone
}

void Labels::add_to(std::vector<pollfd>& polled) const {
  for (const Source& source : sources_)
    if (source.pipe) polled.push_back({source.pipe.number(), POLLIN, 0});
}

void Labels::hand_on() {
  for (Source& source : sources_)
    if (source.pipe) read_some(source);
}

void Labels::read_some(Source& source) {
  std::array<char, 16 * 1024> part;
  const ssize_t length = ::read(source.pipe.number(), part.data(), part.size());
  if (length < 0) return;  // nothing there
  source.rest.append(part.data(), static_cast<std::size_t>(length));
  if (length == 0) {
    source.pipe = Descriptor();
    if (!source.rest.empty()) source.rest += '\n';
  }
  if (source.rest.size() > longest_line && source.rest.find('\n') == std::string::npos)
    source.rest += '\n';
  write_lines(source);
}

void Labels::write_lines(Source& source) {
  std::string text;
  std::string_view left = source.rest;
  for (std::size_t end = left.find('\n'); end != std::string_view::npos; end = left.find('\n')) {
    text += fmt::format("[{}] {}\n", source.rank, left.substr(0, end));
    left.remove_prefix(end + 1);
  }
  if (!write_all(source.to, text)) has_lost_some_ = true;
  source.rest = std::string(left);
}

}  // namespace hymn
