// What ranks that are threads of one process share: mailboxes for messages and boards for
// collectives.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/message_queues.hpp"
#include "hymn/exchange.hpp"

namespace hymn {

class HeapMemory;
class RegionPlan;
class ThreadBoard;

/// One for each run of ranks as threads; shared by all of them. Thread-safe.
class ThreadHub {
 public:
  explicit ThreadHub(int size);
  ~ThreadHub();

  int size() const { return static_cast<int>(mailboxes_.size()); }
  /// Delivers a message. Throws AbortedError after abort().
  void deliver(int to, std::uint64_t tag, ExchangeMessage message);
  /// The next message for `rank` with this tag and source. Throws AbortedError after abort() when
  /// there is none.
  std::optional<ExchangeMessage> take(int rank, int from, std::uint64_t tag);

  /// The board of the group with this uid: the first member to ask makes it, and it lives as long
  /// as a member holds it. `members` is the size of the group.
  std::shared_ptr<ThreadBoard> board(std::uint64_t uid, int members);

  /// The memory of that name that ranks share: the first rank to ask makes it, and it lives as long
  /// as somebody holds it. All ask with the same plan.
  std::shared_ptr<HeapMemory> memory(const std::string& name, const RegionPlan& plan, int members);

  /// Calls `function` with the reason when a rank fails, or now if one has; not any more when
  /// `owner` is gone, which lives as long as the call lasts.
  void at_abort(const std::shared_ptr<const void>& owner,
                std::function<void(const std::string& reason)> function);

  /// Releases everybody who waits, now and later: a rank has failed.
  void abort(const std::string& reason);
  bool is_aborted() const { return aborted_.load(std::memory_order_acquire); }

  /// How many boards, memories and functions it knows of: no more than there were alive at once.
  std::size_t known();

 private:
  struct Mailbox {
    std::mutex mutex;
    MessageQueues arrived;
  };
  struct AtAbort {
    std::weak_ptr<const void> owner;
    std::function<void(const std::string&)> function;
  };
  void throw_if_aborted();

  std::vector<std::unique_ptr<Mailbox>> mailboxes_;
  std::mutex boards_mutex_;
  std::map<std::uint64_t, std::weak_ptr<ThreadBoard>> boards_;
  std::map<std::string, std::weak_ptr<HeapMemory>> memories_;
  std::vector<AtAbort> at_abort_;
  std::size_t swept_at_ = 4;  ///< how many there are when those of gone owners are forgotten
  std::atomic<bool> aborted_{false};
  std::string abort_reason_;
};

/// The Exchange of one rank that is a thread.
class ThreadExchange final : public Exchange {
 public:
  ThreadExchange(std::shared_ptr<ThreadHub> hub, int rank) : hub_(std::move(hub)), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return hub_->size(); }
  void send(int to, std::uint64_t tag, std::span<const std::byte> bytes) override {
    hub_->deliver(to, tag, {rank_, {bytes.begin(), bytes.end()}});
  }
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t tag) override {
    return hub_->take(rank_, from, tag);
  }
  std::string name() const override { return "threads"; }

 private:
  std::shared_ptr<ThreadHub> hub_;
  int rank_;
};

}  // namespace hymn
