// One member's sends and receives over the rings of a channel: matched by source and tag, in the
// order in which they were started.
#pragma once

#include <list>
#include <memory>
#include <optional>
#include <vector>

#include "p2p/shm/channel.hpp"
#include "p2p/shm/ring_pipes.hpp"

namespace hymn {

/// Set in the tags of the user's messages.
inline constexpr std::uint64_t user_mail_tag = std::uint64_t{1} << (ring_tag_bits - 1);

/// A lock that is held for the copy of a few MiB at most.
class MailLock {
 public:
  void lock() noexcept;
  void unlock() noexcept { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

/// A message on its way out. Stays where it is until it is done or withdrawn.
struct Sending {
  int to = -1;
  std::uint64_t tag = 0;
  const std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t sent = 0;
  bool announced = false;
  std::atomic<std::uint32_t> done{0};
  Sending* next = nullptr;

  bool is_done() const { return done.load(std::memory_order_acquire) != 0; }
};

/// A receive that waits for its message. Stays where it is until it is done or withdrawn.
struct Receiving {
  int from = -1;  ///< or any_source
  std::uint64_t tag = 0;
  std::byte* data = nullptr;
  std::size_t room = 0;
  int source = -1;        ///< of the message that matched
  std::size_t bytes = 0;  ///< its length; more than room: nothing was written
  std::atomic<std::uint32_t> done{0};
  Receiving* next = nullptr;

  bool is_done() const { return done.load(std::memory_order_acquire) != 0; }
  /// Once done: UsageError where the message was longer than the buffer.
  void check() const;
};

/// A message that waits to be received.
struct MailNotice {
  int source = -1;
  std::size_t bytes = 0;
};

/// What a probe puts aside of a source to see what comes behind it. Who waits needs that; who polls
/// might do so for ever, and holds back the sender once there is more than ShmMail::most_aside.
enum class PutAside { anything, some };

/// Thread-safe. Nothing waits but for the lock.
class ShmMail {
 public:
  static constexpr std::size_t most_aside = 64 << 20;  ///< bytes, of one source

  ShmMail(std::shared_ptr<ShmChannel> channel, RingAreas areas);
  ~ShmMail();

  ShmChannel& channel() const { return *channel_; }

  void start(Sending& message);
  void start(Receiving& receive);
  /// Moves what can be moved; true once done. Throws AbortedError, and ResourceError where a
  /// message that must be put aside is longer than memory.
  bool step(Sending& message);
  bool step(Receiving& receive);
  /// The first message that a receive from there with that tag would get, if it has come; receives
  /// that were started before have theirs first. Throws as step().
  std::optional<MailNotice> probe(int from, std::uint64_t tag, PutAside how);
  /// Afterwards nobody touches it. False: the peer has got a part of the message and waits for the
  /// rest, so that the channel is of no more use.
  bool withdraw(Sending& message) noexcept;
  /// Likewise, for one that nobody has learned to be done. What has come of its message is kept for
  /// the next receive that matches. False: there is no memory for that, so that the message is
  /// lost.
  bool withdraw(Receiving& receive) noexcept;

 private:
  /// A message that came before its receive.
  struct Parcel {
    int source;
    std::uint64_t tag;
    std::size_t bytes;
    bool is_whole;
    std::unique_ptr<std::byte[]> data;

    std::size_t cost() const { return bytes + sizeof(Parcel); }
  };
  struct Outbox {
    RingWriter writer;
    Sending* first = nullptr;
    Sending* last = nullptr;
  };
  struct Inbox {
    RingReader reader;
    bool in_message = false;  // a long one, of which some is still to come
    std::size_t bytes = 0;
    std::size_t come = 0;
    Receiving* receive = nullptr;  // where it goes: here,
    Parcel* parcel = nullptr;      // or here, or nowhere
    std::size_t aside = 0;         // what its parcels cost
  };

  /// Most groups send no messages, and of hundreds of members each has a box for each.
  void need_boxes() {
    if (out_.empty()) [[unlikely]]
      make_boxes();
  }
  void make_boxes();
  void push(Outbox& out, const Sending* mine);
  bool push_message(RingWriter& writer, Sending& message);
  void pull(int source, const Receiving* mine);
  bool pull_rest(Inbox& in, const Receiving* mine);
  void begin_message(int source, const MessageHead& head, const Receiving* mine);
  Parcel& put_aside(int source, const MessageHead& head);
  std::optional<MailNotice> find_from(int source, std::uint64_t tag, PutAside how);
  bool is_awaited(int source) const;
  bool has_match(int source, std::uint64_t tag) const;
  Receiving* take_match(int source, std::uint64_t tag);
  /// `place` is where the list points to it.
  void take_out(Receiving** place);
  bool take_parcel(Receiving& receive, const Receiving* mine);
  bool put_back(const Receiving& receive, Inbox* coming) noexcept;
  template <class Node>
  void finish(Node& node, const Node* mine);
  void tell(RingFlag flag) {
    if (flag) channel_->publish(*flag.word, flag.value);
  }

  std::shared_ptr<ShmChannel> channel_;
  RingAreas areas_;
  RingPipes pipes_;
  MailLock lock_;
  std::vector<Outbox> out_;
  std::vector<Inbox> in_;
  Receiving* first_awaited_ = nullptr;
  Receiving** end_of_awaited_ = &first_awaited_;
  std::list<Parcel> parcels_;
  std::size_t next_source_ = 0;  // where receives from anybody, and probes, look first
};

}  // namespace hymn
