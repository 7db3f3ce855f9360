#include "p2p/tcp/tcp_reader.hpp"

#include <algorithm>

namespace hymn::tcp {
namespace {

// Where both write much at once what is under way stays in the caches if they look soon for what
// has come.
constexpr std::size_t most_read_at_once = std::size_t{1} << 20;

}  // namespace

// Of the next part of a long message only the head is read with the end of this one: what follows
// it belongs elsewhere than into the scratch, unless nobody wants it any more.
Moved Reader::read(int socket, std::span<std::byte> scratch) {
  for (std::size_t moved = 0; moved < most_read_at_once;) {
    const std::span<std::byte> direct = payload_.room();
    const bool more_goes_there = !direct.empty() && payload_.is_followed_by_more();
    const std::size_t behind = more_goes_there ? head_bytes : scratch.size();
    const std::array parts{bytes_at(direct.data(), direct.size()),
                           bytes_at(scratch.data(), behind)};
    const Moved got = read_some(socket, parts);
    if (got.over || got.bytes == 0) return got;
    const std::size_t placed = std::min(got.bytes, direct.size());
    if (placed != 0) inlet_.advance(payload_, placed);
    parse(scratch.first(got.bytes - placed));
    if (got.bytes < direct.size() + behind) break;  // there is no more
    moved += got.bytes;
  }
  return {};
}

void Reader::parse(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    if (payload_.left > 0) {
      bytes = bytes.subspan(inlet_.take(payload_, bytes));
      continue;
    }
    const std::size_t wanted = ear_.head_size();
    const std::size_t count = std::min(wanted - have_, bytes.size());
    std::copy_n(bytes.begin(), count, head_.begin() + static_cast<std::ptrdiff_t>(have_));
    have_ += count;
    bytes = bytes.subspan(count);
    if (have_ < wanted) return;
    have_ = 0;
    ear_.hear(std::span(head_).first(wanted));
  }
}

void Reader::reset() {
  have_ = 0;
  payload_ = {};
}

}  // namespace hymn::tcp
