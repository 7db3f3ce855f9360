// Many exchanges over one: the messages of every group, and of every world, are its own.
//
// Each message says in full whose it is: the world, the channel in it (a group's uid), and the tag,
// in three words behind its bytes. The exchange underneath carries all messages of a world with one
// small tag, so nothing depends on how much of a tag it keeps. What comes is sorted here; what
// belongs to no world or channel that can still receive it is dropped, and counted.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "base/message_queues.hpp"
#include "base/recent_map.hpp"
#include "base/unsent_mail.hpp"
#include "hymn/exchange.hpp"

namespace hymn {

/// Numbers of which most are neighbours, as ranges: no more of these than there are gaps. What lies
/// between the lowest of them is held to be in the set when there are more than `most_ranges`; but
/// not where they are `far_apart`, so that somebody else counts there.
class NumberSet {
 public:
  static constexpr std::size_t most_ranges = 4096;
  static constexpr std::uint64_t far_apart = std::uint64_t{1} << 24;

  void add(std::uint64_t number);
  bool contains(std::uint64_t number) const;
  std::size_t ranges() const { return last_of_.size(); }

 private:
  std::map<std::uint64_t, std::uint64_t> last_of_;  ///< by the first of each range
};

/// Of one world on one rank. Thread-safe where the exchange is.
class ExchangeMux final : public std::enable_shared_from_this<ExchangeMux>,
                          private UnsentMail::Sender {
 public:
  /// Of what is no group's.
  static constexpr std::uint64_t world_channel = ~std::uint64_t{0};
  /// Of so many channels that were not asked for messages are kept: those that came for others
  /// before are dropped. None is asked for so late that its messages are among them.
  static constexpr std::size_t most_awaited = 4096;

  /// All ranks make worlds over an exchange in the same order: so they number them alike. `tell` is
  /// told of each message that is dropped, and must not call back.
  static std::shared_ptr<ExchangeMux> over(std::shared_ptr<Exchange> exchange,
                                           std::function<void(const std::string&)> tell = {});

  ~ExchangeMux();

  /// What the mux asks of its world while its messages are moved.
  struct MailRules {
    std::function<bool()> may_move;         ///< the calling thread
    std::function<bool(int rank)> is_gone;  ///< nothing ever gets there
  };
  /// Who waits on this rank moves what has not left; from when it is known whom the rank shares its
  /// process with.
  void set_mail(std::shared_ptr<UnsentMail> mail, MailRules rules);
  /// Nobody does any more. Waits for who is at it.
  void end_mail();
  /// Messages with this id, which no other group of the world ever has. When the last holder lets
  /// go of it, it has ended: what has come for it, or comes later, is dropped. One that has ended
  /// cannot be asked for again.
  std::shared_ptr<Exchange> channel(std::uint64_t id);
  /// Nobody on this rank will ask for this channel.
  void pass_over(std::uint64_t id);

  /// Counts, with those that it drops itself, messages of that channel that were taken from it, and
  /// that nobody can receive any more.
  void count_dropped(std::uint64_t id, std::size_t messages);
  std::uint64_t dropped() const;
  /// How many channels it remembers, living or ended ones, and how many messages it holds.
  std::size_t remembered() const;
  std::size_t held() const;

 private:
  class Channel;
  /// Behind the bytes of each message.
  struct Identity {
    std::uint64_t world;
    std::uint64_t channel;
    std::uint64_t tag;
  };
  struct Letter {
    int to;
    std::uint64_t number;  ///< the exchange's
  };

  ExchangeMux(std::shared_ptr<Exchange> exchange, std::uint64_t world,
              std::function<void(const std::string&)> tell);
  std::uint64_t send(int to, const Identity& identity, std::span<const std::byte> bytes);
  std::optional<ExchangeMessage> try_receive(int from, std::uint64_t channel, std::uint64_t tag);
  bool has_left(std::uint64_t number) noexcept;
  void note_unsent(const Letter& letter);
  bool move_unsent() noexcept override;
  void sort(ExchangeMessage message);
  void keep_few_awaited(std::uint64_t id);
  void drop(std::size_t messages, const std::string& why);

  const std::shared_ptr<Exchange> exchange_;
  const std::uint64_t world_;
  const std::function<void(const std::string&)> tell_;
  mutable std::mutex mutex_;  // guards what follows
  std::map<std::uint64_t, std::weak_ptr<Exchange>> open_;
  std::map<std::uint64_t, MessageQueues> arrived_;  ///< by channel; perhaps of one that is to come
  RecentMap<std::uint64_t, std::monostate> awaited_{most_awaited + 1};  ///< of these, not open
  NumberSet ended_;
  std::vector<Letter> unsent_;
  std::size_t turn_ = 0;  ///< whose it is, of these
  std::shared_ptr<UnsentMail> mail_;
  MailRules rules_;
  std::uint64_t dropped_ = 0;
};

}  // namespace hymn
