// Two Exchanges as a user might write them: over the memory of one process, with delays, and over
// sockets between processes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

#include "base/message_queues.hpp"
#include "hymn/exchange.hpp"

namespace hymn::test {

/// A post office that takes its time: every message lies for some looks before it can be taken, so
/// that messages of different senders and tags overtake each other. Those of one sender and tag do
/// not.
class SlowPost {
 public:
  SlowPost(int size, unsigned seed);
  int size() const { return static_cast<int>(boxes_.size()); }
  void send(int from, int to, std::uint64_t tag, std::span<const std::byte> bytes);
  std::optional<ExchangeMessage> look(int rank, int from, std::uint64_t tag);

 private:
  struct Letter {
    unsigned looks_left;
    ExchangeMessage message;
  };
  struct Box {
    std::mutex mutex;
    std::minstd_rand random;
    std::map<std::uint64_t, std::map<int, std::deque<Letter>>> by_tag_and_source;
  };
  std::vector<std::unique_ptr<Box>> boxes_;
};

class SlowExchange final : public Exchange {
 public:
  SlowExchange(std::shared_ptr<SlowPost> post, int rank) : post_(std::move(post)), rank_(rank) {}
  int rank() const override { return rank_; }
  int size() const override { return post_->size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    post_->send(rank_, to, tag, bytes);
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    return post_->look(rank_, from, tag);
  }
  std::string name() const override { return "slow post"; }

 private:
  std::shared_ptr<SlowPost> post_;
  int rank_;
};

/// One rank of several processes; `sockets[i]` is a stream socket to rank i (none to itself). Used
/// by one thread.
class SocketExchange final : public Exchange {
 public:
  SocketExchange(int rank, std::vector<int> sockets);
  ~SocketExchange() override;
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override;
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override;
  std::string name() const override { return "sockets"; }

 private:
  struct Peer {
    int socket = -1;
    std::deque<std::byte> outgoing{};
    std::vector<std::byte> incoming{};
  };
  void move_all();
  void write_some(Peer& peer);
  void read_some(int rank, Peer& peer);
  void unpack(int rank, std::vector<std::byte>& incoming);

  int rank_;
  std::vector<Peer> peers_;
  MessageQueues arrived_;
};

}  // namespace hymn::test
