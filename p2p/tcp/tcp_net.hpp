// The connections of one rank of a world to the others, and what comes by them: made when they are
// needed, shared by all groups, and moved by whoever waits.
//
// There is one for each other rank, made by whoever of the two has something to say first: a
// message does not wait until the other one looks. A Link tells what becomes of two that are made
// at once.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "base/exchange_mux.hpp"
#include "base/log.hpp"
#include "base/own_process.hpp"
#include "base/recent_map.hpp"
#include "p2p/tcp/tcp_link.hpp"

namespace hymn::tcp {

/// Thread-safe. Nothing waits but for the lock, and rest().
class Net final : private Post, private Sorter {
 public:
  /// Strangers that have proved nothing yet, besides one connection for each rank: when there are
  /// more, the oldest goes.
  static constexpr std::size_t most_strangers = 64;
  /// Groups that are not made here yet for which messages have come.
  static constexpr std::size_t most_awaited = 4096;

  /// Throws ResourceError for want of descriptors.
  Net(int rank, int size, Logger logger, Limits limits = {});
  Net(const Net&) = delete;
  Net& operator=(const Net&) = delete;
  ~Net() override;

  int size() const { return static_cast<int>(links_.size()); }
  /// At an address of this host, and any port. Throws NetworkError and ResourceError.
  void listen(const std::string& host);
  /// Unset: it listens nowhere.
  std::optional<Address> listens_at() const;
  const Nonce& nonce() const { return nonce_; }
  /// Before anything is sent.
  void set_token(const Token& token);
  /// Where a rank listens, and the nonce that it has given out; the first is remembered.
  void introduce(int rank, const Address& address, const Nonce& nonce);
  bool knows(int rank) const;
  /// Whether it has ever connected to this one, or said something.
  bool has_heard(int rank) const;

  /// From now on messages of this group can be received; until close().
  void open(std::uint64_t group);
  /// What comes for it from now on is dropped, and counted.
  void close(std::uint64_t group);
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

  void start(Sending& message);
  void start(std::uint64_t group, Receiving& receive);
  /// As those of Link and Mailbox.
  bool withdraw(Sending& message) noexcept;
  bool withdraw(std::uint64_t group, Receiving& receive, bool keep) noexcept;
  struct Found {
    int source;
    std::uint64_t bytes;
  };
  std::optional<Found> probe(std::uint64_t group, int from, std::uint64_t tag);
  /// Moves what can be moved.
  void turn();
  /// The ranks to which there is no connection, and of which nobody has said that they are dead.
  std::vector<int> away() const;
  /// As of Link.
  void note_dead(int rank);
  /// Whether it had better be moved again soon.
  bool is_troubled() const;
  /// Throws NetworkError where nothing comes from there any more, ResourceError where nobody new
  /// can be heard.
  void require_from(int rank) {
    if (has_failures_.load(std::memory_order_relaxed)) [[unlikely]]
      look_whether_failed(rank);
  }

  /// What is known to be wrong with the connection to a rank, for people; empty: nothing.
  std::string trouble_with(int rank) const;

  /// While it lives whatever is done here wakes rest().
  class Rest {
   public:
    explicit Rest(Net& net);
    ~Rest();
    Rest(const Rest&) = delete;
    Rest& operator=(const Rest&) = delete;
    void sleep(long nanoseconds) const { net_.poller_.sleep(nanoseconds); }

   private:
    Net& net_;
  };

  /// Waits, for so long at most, until all that was said has reached the other hosts; then ends all
  /// connections.
  void shut_down(Duration limit);
  // For tests.
  std::size_t strangers() const;
  /// Streams of the connection to this rank.
  std::uint64_t streams_to(int rank) const;
  /// To each rank, at most.
  std::uint64_t streams_wanted() const { return site_.limits.streams; }
  /// Ends the connection to this rank, or another stream of it, as a network might.
  void cut(int rank, std::uint64_t stream = 0);

 private:
  struct Guest {
    Descriptor socket;
    TimePoint since;
    std::size_t have = 0;
    Hello hello{};
  };

  void want(Incoming& message) override { message.link->want(message); }
  void settle(Incoming& message) override {
    if (message.link != nullptr) message.link->settle(message);
  }
  void finish(Receiving& receive) override;
  bool sort(const std::shared_ptr<Incoming>& message) override;
  void finish(Sending& message);
  void wake();
  void drop(std::size_t messages, std::uint64_t group);
  std::unique_ptr<Mailbox> make_mailbox();
  void end_box(std::uint64_t group);
  void move();
  void look_after(TimePoint now);
  bool is_deaf(TimePoint now) const;
  void look_whether_failed(int rank);
  void accept();
  void note_shortage();
  void hear(std::uint32_t number);
  void welcome(Guest guest);
  void forget_guests(TimePoint now);
  void end_guest(std::map<std::uint32_t, Guest>::iterator guest);
  Link& link(int rank) { return *links_[static_cast<std::size_t>(rank)]; }
  const Link& link(int rank) const { return *links_[static_cast<std::size_t>(rank)]; }
  void close_in_child();

  const Logger logger_;
  const Nonce nonce_;
  mutable std::mutex mutex_;  // guards what follows
  Poller poller_;
  LinkSite site_;
  Descriptor listener_;
  std::optional<TimePoint> deaf_since_;       ///< no descriptor is left for who connects
  std::vector<std::unique_ptr<Link>> links_;  ///< by rank
  std::map<std::uint32_t, Guest> guests_;
  std::uint32_t last_guest_ = 0;
  std::map<std::uint64_t, std::unique_ptr<Mailbox>> boxes_;  ///< by group
  RecentMap<std::uint64_t, std::monostate> awaited_{most_awaited + 1};
  NumberSet ended_;
  std::vector<std::byte> scratch_;
  TimePoint next_look_{};
  std::atomic<std::uint64_t> dropped_{0};
  std::atomic<bool> has_failures_{false};  ///< some rank is lost, or nobody can be heard
  std::atomic<int> resting_{0};
  ForkWatch forks_;
};

}  // namespace hymn::tcp
