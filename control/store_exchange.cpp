// An Exchange over a Store.
//
// The messages from one rank to another are numbered, whatever their tags; message n is the value
// of "exchange/from/to/n", which the receiver deletes. So a receiver asks for one key only to know
// whether anything has come from a rank. Before the bytes stand the tag and how many bytes the
// message has in all: a large one takes several values.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "base/meeting.hpp"
#include "base/message_queues.hpp"
#include "hymn/store.hpp"

namespace hymn {
namespace {

struct Head {
  std::uint64_t tag;
  std::uint64_t bytes;  ///< of the whole message
};

constexpr std::size_t most_of_a_part = Store::most_value_bytes - sizeof(Head);

class StoreExchange final : public Exchange {
 public:
  StoreExchange(std::shared_ptr<Store> store, int rank, int size)
      : store_(std::move(store)), rank_(rank), peers_(static_cast<std::size_t>(size)) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(peers_.size()); }
  std::string name() const override { return "store"; }

  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override;
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override;

 private:
  struct Peer {
    std::uint64_t sent = 0;
    std::uint64_t received = 0;
    Bytes incomplete{};  ///< the beginning of a message of several values
  };

  static std::string key(int from, int to, std::uint64_t number) {
    return fmt::format("exchange/{}/{}/{}", from, to, number);
  }
  Peer& peer(int rank);
  void fetch(int from);
  void take_part(int from, const Bytes& value);

  std::shared_ptr<Store> store_;
  int rank_;
  std::mutex sending_;
  std::mutex receiving_;
  std::vector<Peer> peers_;  ///< `sent` under sending_, all else under receiving_
  MessageQueues arrived_;
};

StoreExchange::Peer& StoreExchange::peer(int rank) {
  if (rank < 0 || rank >= size())
    throw UsageError(fmt::format("there is no rank {} among {} ranks", rank, size()),
                     {.rank = rank_, .remedy = "give a rank from 0 to size-1"});
  return peers_[static_cast<std::size_t>(rank)];
}

void StoreExchange::send(int to, std::uint64_t tag, std::span<const std::byte> bytes) {
  Peer& receiver = peer(to);
  if (to == rank_) {
    const std::lock_guard lock(receiving_);
    arrived_.add(tag, {.source = rank_, .bytes = {bytes.begin(), bytes.end()}});
    return;
  }
  const std::lock_guard lock(sending_);
  const Head head{.tag = tag, .bytes = bytes.size()};
  do {
    const auto part = bytes.first(std::min(bytes.size(), most_of_a_part));
    bytes = bytes.subspan(part.size());
    Bytes value(sizeof head + part.size());
    std::memcpy(value.data(), &head, sizeof head);
    std::copy(part.begin(), part.end(), value.begin() + sizeof head);
    store_->set(key(rank_, to, receiver.sent++), value);
  } while (!bytes.empty());
}

std::optional<ExchangeMessage> StoreExchange::try_receive(int from, std::uint64_t tag) {
  const std::lock_guard lock(receiving_);
  if (auto message = arrived_.take(from, tag)) return message;
  if (from != from_anyone) {
    peer(from);
    fetch(from);
  } else {
    for (int rank = 0; rank < size(); ++rank) fetch(rank);
  }
  return arrived_.take(from, tag);
}

// All that is there from this rank, of whatever tag.
void StoreExchange::fetch(int from) {
  if (from == rank_) return;
  Peer& sender = peer(from);
  for (std::string name = key(from, rank_, sender.received); store_->check({name});
       name = key(from, rank_, sender.received)) {
    const Bytes value = store_->get(name);
    take_part(from, value);
    ++sender.received;
    store_->delete_key(name);
  }
}

void StoreExchange::take_part(int from, const Bytes& value) {
  Head head{};
  if (value.size() < sizeof head)
    throw StoreError(fmt::format("the message from rank {} in the store is damaged", from),
                     {.rank = rank_, .remedy = "let nothing else use this store or prefix"});
  std::memcpy(&head, value.data(), sizeof head);
  Bytes& message = peer(from).incomplete;
  message.insert(message.end(), value.begin() + sizeof head, value.end());
  if (message.size() < head.bytes) return;
  arrived_.add(head.tag, {.source = from, .bytes = std::exchange(message, {})});
}

}  // namespace

std::shared_ptr<Exchange> exchange_over(std::shared_ptr<Store> store, int rank, int size) {
  if (store == nullptr)
    throw UsageError("an exchange over a store needs a store", {.remedy = "give one"});
  if (rank < 0 || rank >= size)
    throw UsageError(fmt::format("rank {} is not among {} ranks", rank, size),
                     {.remedy = "give a rank from 0 to size-1"});
  return std::make_shared<StoreExchange>(std::move(store), rank, size);
}

}  // namespace hymn
