// The messages of one group on one rank: which has come for which receive. They match by sender and
// tag, in the order in which they were sent and the receives were posted.
#pragma once

#include <list>
#include <map>
#include <memory>
#include <utility>

#include "p2p/tcp/tcp_messages.hpp"

namespace hymn::tcp {

/// What a mailbox asks of those by whom messages come.
class Post {
 public:
  virtual ~Post() = default;
  /// The bytes of a long message are wanted now.
  virtual void want(Incoming& message) = 0;
  /// Nothing more of it is wanted: it is whole, or nobody's.
  virtual void settle(Incoming& message) = 0;
  /// Somebody's wait is over.
  virtual void finish(Receiving& receive) = 0;
};

/// Called with the lock of its Net held.
class Mailbox {
 public:
  explicit Mailbox(Post& post) : post_(post) {}
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  void post(Receiving& receive);
  /// Its head has come, and perhaps no byte of it.
  void arrive(const std::shared_ptr<Incoming>& message);
  /// Its last byte has.
  void complete(Incoming& message);
  /// The sender has given it up. A receive waits for another, unless it had been granted more than
  /// what comes with the announcement.
  void cancel(const std::shared_ptr<Incoming>& message);
  /// Afterwards nobody writes to its buffer. What has come of its message is kept for the next, if
  /// `keep`. False: there is no memory for that, so that the message is lost.
  bool withdraw(Receiving& receive, bool keep) noexcept;
  /// The same of one that is done, of which nobody has been told.
  bool put_back(const Receiving& receive) noexcept;
  /// The first that a receive would get.
  const Incoming* probe(int from, std::uint64_t tag) const;
  /// Messages that nobody has received. They become nobody's.
  std::size_t close();

 private:
  using Key = std::pair<std::uint64_t, int>;  ///< tag and sender
  using Queue = std::list<std::shared_ptr<Incoming>>;

  Receiving* take_posted(const Incoming& message);
  std::map<Key, Queue>::const_iterator find_arrived(int from, std::uint64_t tag) const;
  bool take_arrived(Receiving& receive);
  /// A list of one message, which is passed on where there may be no memory for another.
  void give(Queue one, Receiving& receive);
  void post_again(Receiving& receive);
  bool put_back(Queue& one, const std::byte* data) noexcept;
  void drop(Incoming& message);

  Post& post_;
  std::map<Key, std::list<Receiving*>> posted_;
  std::map<Key, Queue> arrived_;
  Queue coming_;                                   ///< what is on its way to a receive
  std::uint64_t places_ = std::uint64_t{1} << 32;  ///< some are put before all others
  std::uint64_t first_place_ = places_;
};

}  // namespace hymn::tcp
