#include "p2p/tcp/tcp_exchange.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <utility>
#include <vector>

#include "base/message_queues.hpp"
#include "base/own_process.hpp"
#include "hymn/request.hpp"
#include "p2p/tcp/tcp_directory.hpp"
#include "p2p/tcp/tcp_net.hpp"

namespace hymn {
namespace {

constexpr std::uint64_t only_group = 0;  // of a Net that is the exchange's own
constexpr Duration between_questions = std::chrono::milliseconds(300);
constexpr Duration last_moment = std::chrono::milliseconds(500);

static_assert(any_source == Exchange::from_anyone);

/// What is on its way to others, or waits until it is known where they are.
class Outbox {
 public:
  Outbox(tcp::Net& net, tcp::Directory& directory, int size)
      : net_(net), directory_(directory), waiting_(static_cast<std::size_t>(size)) {}
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;
  ~Outbox() {
    for (Letter& letter : sent_) net_.withdraw(letter.sending);
  }

  std::uint64_t add(int to, std::uint64_t tag, std::span<const std::byte> bytes) {
    Letters letter(1);
    Letter& one = letter.front();
    one.number = ++last_;
    one.bytes.assign(bytes.begin(), bytes.end());
    one.sending.to = to;
    one.sending.group = only_group;
    one.sending.tag = tag;
    one.sending.data = one.bytes.data();
    one.sending.bytes = one.bytes.size();
    Letters& waiting = waiting_[static_cast<std::size_t>(to)];
    waiting.splice(waiting.end(), letter);
    under_way_.insert(last_);
    ++waits_;
    send(waiting);
    forget_what_is_done();
    return last_;
  }
  /// All of it: nothing waits for who is not in the directory.
  bool is_sent() const { return waits_ == 0; }
  void move() {
    if (!is_sent())
      for (Letters& letters : waiting_) send(letters);
    forget_what_is_done();
  }
  bool has_left(std::uint64_t number) const { return !under_way_.contains(number); }

 private:
  struct Letter {
    std::uint64_t number = 0;
    std::vector<std::byte> bytes{};
    tcp::Sending sending{};
  };
  using Letters = std::list<Letter>;  // which stay where they are

  void send(Letters& letters) {
    while (!letters.empty() && directory_.knows(letters.front().sending.to)) {
      sent_.splice(sent_.end(), letters, letters.begin());
      --waits_;
      net_.start(sent_.back().sending);
    }
  }
  // Throws where one has failed.
  void forget_what_is_done() {
    for (auto letter = sent_.begin(); letter != sent_.end();) {
      if (!letter->sending.done.load(std::memory_order_acquire)) {
        ++letter;
        continue;
      }
      const std::exception_ptr error = letter->sending.error;
      under_way_.erase(letter->number);
      letter = sent_.erase(letter);
      if (error) std::rethrow_exception(error);
    }
  }

  tcp::Net& net_;
  tcp::Directory& directory_;
  std::vector<Letters> waiting_;  ///< by rank
  std::size_t waits_ = 0;         ///< how many, of all
  Letters sent_;
  std::set<std::uint64_t> under_way_;  ///< by number
  std::uint64_t last_ = 0;
};

/// What comes from others. A long message is here when it is asked for, and only then.
class Inbox {
 public:
  explicit Inbox(tcp::Net& net) : net_(net) { net_.open(only_group); }
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;
  ~Inbox() {
    for (auto& [key, parcel] : coming_) net_.withdraw(only_group, parcel->receive, false);
  }

  std::optional<ExchangeMessage> take(int from, std::uint64_t tag) {
    net_.turn();
    auto found = find(from, tag);
    if (found == coming_.end()) found = begin(from, tag);
    if (found == coming_.end()) {
      net_.require_from(from);
      return std::nullopt;
    }
    tcp::Receiving& receive = found->second->receive;
    if (!receive.done.load(std::memory_order_acquire)) {
      net_.require_from(receive.source);
      return std::nullopt;
    }
    const std::unique_ptr<Parcel> parcel = std::move(found->second);
    coming_.erase(found);
    if (receive.error) std::rethrow_exception(receive.error);
    return ExchangeMessage{.source = receive.source, .bytes = std::move(parcel->bytes)};
  }

 private:
  struct Parcel {
    std::vector<std::byte> bytes{};
    tcp::Receiving receive{};
  };
  using Key = std::pair<std::uint64_t, int>;  ///< tag and source
  using Parcels = std::map<Key, std::unique_ptr<Parcel>>;

  Parcels::iterator find(int from, std::uint64_t tag) {
    const auto found = coming_.lower_bound({tag, from});
    const bool fits = found != coming_.end() && found->first.first == tag &&
                      (from == Exchange::from_anyone || found->first.second == from);
    return fits ? found : coming_.end();
  }
  Parcels::iterator begin(int from, std::uint64_t tag) {
    const auto message = net_.probe(only_group, from, tag);
    if (!message) return coming_.end();
    auto parcel = std::make_unique<Parcel>();
    parcel->bytes.resize(message->bytes);
    parcel->receive.from = message->source;
    parcel->receive.source = message->source;
    parcel->receive.tag = tag;
    parcel->receive.data = parcel->bytes.data();
    parcel->receive.room = parcel->bytes.size();
    net_.start(only_group, parcel->receive);
    return coming_.emplace(Key{tag, message->source}, std::move(parcel)).first;
  }

  tcp::Net& net_;
  Parcels coming_;
};

class TcpExchange final : public Exchange {
 public:
  TcpExchange(std::shared_ptr<Store> store, const TcpExchangeSite& site)
      : rank_(site.rank),
        size_(site.size),
        net_(site.rank, site.size, site.logger),
        directory_(std::move(store), net_),
        outbox_(net_, directory_, site.size),
        inbox_(net_),
        how_ended_(site.how_ended) {
    net_.listen(tcp::own_address(site.interface, site.one_host));
    directory_.add(rank_);
  }
  ~TcpExchange() override { net_.shut_down(last_moment); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string name() const override { return "TCP"; }

  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    send_numbered(to, tag, bytes);
  }
  std::uint64_t send_numbered(int to, std::uint64_t tag,
                              std::span<const std::byte> bytes) override {
    if (to < 0 || to >= size_)
      throw UsageError(fmt::format("there is no rank {} among {} ranks", to, size_),
                       {.rank = rank_, .remedy = "give a rank from 0 to size-1"});
    const std::lock_guard lock(mutex_);
    if (to != rank_) return outbox_.add(to, tag, bytes);
    to_itself_.add(tag, {.source = rank_, .bytes = {bytes.begin(), bytes.end()}});
    return 0;
  }
  bool has_left(std::uint64_t number) override {
    const std::lock_guard lock(mutex_);
    net_.turn();
    outbox_.move();
    return outbox_.has_left(number);
  }
  bool await_news(Duration limit) override {
    {
      // No news comes of who is not in the store yet.
      const std::lock_guard lock(mutex_);
      if (!outbox_.is_sent()) limit = std::min(limit, directory_.between_looks());
    }
    tcp::Net::Rest(net_).sleep(limit.count());
    return true;
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    const std::lock_guard lock(mutex_);
    outbox_.move();
    if (auto message = to_itself_.take(from, tag)) return message;
    if (from == rank_) return std::nullopt;
    if (auto message = inbox_.take(from, tag)) return message;
    const std::optional<std::string> end = end_of(from);
    if (!end) return std::nullopt;
    // What it has said before its end is here by now.
    auto message = inbox_.take(from, tag);
    if (!message && !net_.has_heard(from))
      throw PeerError(fmt::format("rank {} has ended before it came: it {}", from, *end),
                      {.missing = {from}});
    return message;
  }

 private:
  // Of one that has said nothing yet; asked now and then.
  std::optional<std::string> end_of(int rank) {
    if (!how_ended_ || rank == from_anyone || net_.has_heard(rank)) return std::nullopt;
    const TimePoint now = std::chrono::steady_clock::now();
    if (now < next_question_) return std::nullopt;
    next_question_ = now + between_questions;
    return how_ended_(rank);
  }

  const int rank_;
  const int size_;
  std::mutex mutex_;  // guards what follows
  tcp::Net net_;
  tcp::Directory directory_;
  Outbox outbox_;
  Inbox inbox_;
  MessageQueues to_itself_;
  const std::function<std::optional<std::string>(int rank)> how_ended_;
  TimePoint next_question_ = std::chrono::steady_clock::now() + between_questions;
};

}  // namespace

std::shared_ptr<Exchange> make_tcp_exchange(std::shared_ptr<Store> store,
                                            const TcpExchangeSite& site) {
  return make_shared_here<TcpExchange>(std::move(store), site);
}

}  // namespace hymn
