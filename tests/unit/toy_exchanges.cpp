#include "tests/unit/toy_exchanges.hpp"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace hymn::test {

SlowPost::SlowPost(int size, unsigned seed) {
  for (int rank = 0; rank < size; ++rank) {
    boxes_.push_back(std::make_unique<Box>());
    boxes_.back()->random.seed(seed + static_cast<unsigned>(rank));
  }
}

void SlowPost::send(int from, int to, std::uint64_t tag, std::span<const std::byte> bytes) {
  Box& box = *boxes_.at(static_cast<std::size_t>(to));
  std::lock_guard lock(box.mutex);
  const auto looks = static_cast<unsigned>(box.random() % 12);
  box.by_tag_and_source[tag][from].push_back({looks, {from, {bytes.begin(), bytes.end()}}});
}

std::optional<ExchangeMessage> SlowPost::look(int rank, int from, std::uint64_t tag) {
  Box& box = *boxes_.at(static_cast<std::size_t>(rank));
  std::lock_guard lock(box.mutex);
  const auto sources = box.by_tag_and_source.find(tag);
  if (sources == box.by_tag_and_source.end()) return std::nullopt;
  for (auto& [source, letters] : sources->second) {
    if (letters.empty() || (from != Exchange::from_anyone && from != source)) continue;
    if (letters.front().looks_left > 0) {
      --letters.front().looks_left;
      continue;
    }
    ExchangeMessage message = std::move(letters.front().message);
    letters.pop_front();
    return message;
  }
  return std::nullopt;
}

SocketExchange::SocketExchange(int rank, std::vector<int> sockets) : rank_(rank) {
  for (const int socket : sockets) peers_.push_back({.socket = socket});
}

// What was sent must arrive even when this rank goes on to end.
SocketExchange::~SocketExchange() {
  const auto is_busy = [](const Peer& peer) { return !peer.outgoing.empty(); };
  while (std::any_of(peers_.begin(), peers_.end(), is_busy)) move_all();
  for (const Peer& peer : peers_)
    if (peer.socket >= 0) ::close(peer.socket);
}

void SocketExchange::send(int to, std::uint64_t tag, std::span<const std::byte> bytes) {
  if (to == rank_) {
    arrived_.add(tag, {rank_, {bytes.begin(), bytes.end()}});
    return;
  }
  auto& outgoing = peers_.at(static_cast<std::size_t>(to)).outgoing;
  const std::array<std::uint64_t, 2> header = {tag, bytes.size()};
  const auto head = std::as_bytes(std::span(header));
  outgoing.insert(outgoing.end(), head.begin(), head.end());
  outgoing.insert(outgoing.end(), bytes.begin(), bytes.end());
  move_all();
}

std::optional<ExchangeMessage> SocketExchange::try_receive(int from, std::uint64_t tag) {
  move_all();
  return arrived_.take(from, tag);
}

void SocketExchange::move_all() {
  for (int rank = 0; rank < size(); ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (peer.socket < 0) continue;
    write_some(peer);
    read_some(rank, peer);
  }
}

void SocketExchange::write_some(Peer& peer) {
  std::array<std::byte, 65536> part;
  while (!peer.outgoing.empty()) {
    const std::size_t length = std::min(part.size(), peer.outgoing.size());
    const auto end = peer.outgoing.begin() + static_cast<std::ptrdiff_t>(length);
    std::copy(peer.outgoing.begin(), end, part.begin());
    const auto written = ::send(peer.socket, part.data(), length, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (written < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (written < 0) {
      peer.outgoing.clear();  // or its end would wait for ever
      throw NetworkError("the other end of the socket is gone");
    }
    peer.outgoing.erase(peer.outgoing.begin(), peer.outgoing.begin() + written);
  }
}

void SocketExchange::read_some(int rank, Peer& peer) {
  std::array<std::byte, 65536> part;
  while (true) {
    const auto length = ::recv(peer.socket, part.data(), part.size(), MSG_DONTWAIT);
    if (length <= 0) break;  // nothing there, or the peer has ended
    peer.incoming.insert(peer.incoming.end(), part.begin(), part.begin() + length);
  }
  unpack(rank, peer.incoming);
}

void SocketExchange::unpack(int rank, std::vector<std::byte>& incoming) {
  std::array<std::uint64_t, 2> header{};
  std::size_t done = 0;
  while (incoming.size() - done >= sizeof header) {
    std::memcpy(header.data(), incoming.data() + done, sizeof header);
    if (incoming.size() - done - sizeof header < header[1]) break;
    const auto begin = incoming.begin() + static_cast<std::ptrdiff_t>(done + sizeof header);
    arrived_.add(header[0], {rank, {begin, begin + static_cast<std::ptrdiff_t>(header[1])}});
    done += sizeof header + header[1];
  }
  incoming.erase(incoming.begin(), incoming.begin() + static_cast<std::ptrdiff_t>(done));
}

}  // namespace hymn::test
