// The connections of some ranks of a world, all moved by the thread of the test.
#pragma once

#include <chrono>
#include <memory>
#include <numeric>
#include <vector>

#include "p2p/tcp/tcp_net.hpp"
#include "p2p/tcp/tcp_port.hpp"

namespace hymn::test {

using Block = std::vector<std::uint8_t>;

inline constexpr std::size_t megabyte = std::size_t{1} << 20;

inline ConstBufferView sent(const Block& block) {
  return {block.data(), block.size(), DataType::uint8};
}
inline BufferView room(Block& block) { return {block.data(), block.size(), DataType::uint8}; }
inline MessageTag user(int tag) { return MessageTag::of_user(tag); }

class TcpScene {
 public:
  /// If `introduced`, all know where all listen.
  explicit TcpScene(int ranks, tcp::Limits limits = {}, const char* host = "127.0.0.1",
                    bool introduced = true) {
    const Token token = Token::random();
    for (int rank = 0; rank < ranks; ++rank) {
      nets_.push_back(make_shared_here<tcp::Net>(rank, ranks, Logger(LogLevel::off, rank), limits));
      nets_.back()->set_token(token);
      nets_.back()->listen(host);
    }
    for (int rank = 0; introduced && rank < ranks; ++rank)
      for (int other = 0; other < ranks; ++other) introduce(rank, other);
  }

  tcp::Net& net(int rank) { return *nets_[static_cast<std::size_t>(rank)]; }
  void introduce(int rank, int other) {
    net(rank).introduce(other, net(other).listens_at().value(), net(other).nonce());
  }
  /// The first time it opens the group there.
  std::shared_ptr<MessagePort> port(int rank, std::uint64_t group = 0) {
    std::vector<int> ranks(nets_.size());
    std::iota(ranks.begin(), ranks.end(), 0);
    net(rank).open(group);
    return make_tcp_port(nets_[static_cast<std::size_t>(rank)], group, ranks);
  }
  /// Moves all until `done`; false when it is not within 20 s.
  template <class Done>
  bool until(Done done) {
    return within(std::chrono::seconds(20), done);
  }
  template <class Done>
  bool within(Duration limit, Done done) {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!done()) {
      if (std::chrono::steady_clock::now() > end) return false;
      for (const auto& net : nets_) net->turn();
    }
    return true;
  }

 private:
  std::vector<std::shared_ptr<tcp::Net>> nets_;
};

/// Bytes that tell from which message they are, and where in it.
inline Block pattern(std::size_t bytes, std::uint64_t seed) {
  Block made(bytes);
  auto state = static_cast<std::uint32_t>(seed * 2654435761u + 1);
  for (auto& byte : made) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return made;
}

}  // namespace hymn::test
