// More streams of a link's connection than its main one, for networks that let each flow have only
// a part of what they can do. Only parts of long messages go by them, so that all else has one
// order.
//
// Who has made the connection makes them, when the first large message goes by it. Each says which
// it is and of which connection, in what it proves. It carries nothing before its maker has been
// welcome, and has said so, by a part of nothing: so one that comes to its end before that has lost
// nothing. That one, and one that cannot be made, is done without, and tried again later. But the
// loss of one that was there is the loss of the connection: what it carried is sent again, by the
// next one.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "p2p/tcp/tcp_greeting.hpp"
#include "p2p/tcp/tcp_poller.hpp"
#include "p2p/tcp/tcp_reader.hpp"
#include "p2p/tcp/tcp_site.hpp"

namespace hymn::tcp {

/// What is left of a message that is worth more streams.
inline constexpr std::uint64_t worth_streams = std::uint64_t{1} << 20;

/// Called with the lock of its Net held, by its Link.
class Streams {
 public:
  Streams(int rank, const LinkSite& site, Poller& poller, Outlet& outlet, Inlet& inlet);
  ~Streams();
  Streams(const Streams&) = delete;
  Streams& operator=(const Streams&) = delete;

  /// Those that are not there yet, of `count` with the main one.
  void make(const Address& address, const Contact& main, std::uint64_t count);
  /// The peer has made it. Throws NetworkError where it is not wanted.
  void join(Descriptor socket, const Contact& contact);
  /// Throws NetworkError where it is lost.
  void on_event(std::uint64_t stream, std::uint32_t events, std::span<std::byte> scratch);
  /// They are written to when they can be: one event moves one of them.
  void watch();
  /// One is under way that this rank makes.
  bool is_restless() const;
  /// Does without those that have not been welcome for long.
  void look_after(TimePoint now);
  bool is_drained() const;
  void close();
  /// The same after a loss: after several, others are made later and later, for what the network
  /// does to them costs the main one, too.
  void lose(std::string_view why) noexcept;
  /// In a child made by fork(): their descriptors only.
  void close_in_child();
  // For tests.
  /// That carry something, if need be.
  std::uint64_t count() const;
  void cut(std::uint64_t stream) const;

 private:
  class Stream;
  Stream* find(std::uint64_t stream) const;  ///< null: it is not there
  void begin(std::uint32_t stream, const Address& address, Contact contact);
  void do_without(std::uint64_t stream, const std::string& why);
  void drop(std::uint64_t stream, const std::string& why);
  bool add(std::unique_ptr<Stream> stream);

  const int rank_;
  const LinkSite& site_;
  Poller& poller_;
  Outlet& outlet_;
  Inlet& inlet_;
  std::vector<std::unique_ptr<Stream>> all_;         ///< by number; null: it is not there
  std::array<std::uint32_t, most_streams> heard_{};  ///< the peer's last attempt at each
  std::uint32_t attempt_ = 0;                        ///< the last of this rank's
  TimePoint next_attempt_{};
  TimePoint next_after_loss_{};
  TimePoint lost_at_{};
  Duration pause_{};
  bool has_told_ = false;
  bool has_told_losses_ = false;
};

/// In the poller.
inline std::uint32_t number_of(int rank, std::uint64_t stream) {
  return static_cast<std::uint32_t>(static_cast<std::uint64_t>(rank) * most_streams + stream);
}

}  // namespace hymn::tcp
