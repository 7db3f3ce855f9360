// What a rank that knows the token may say on its connections to another, right or damaged, in
// pieces of any size.
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "p2p/tcp/tcp_link.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace hymn;

/// Each time that one was sent; that those behind a damaged one are heard is not said.
fuzz::Tally frames{"frames"};

/// The instructions that an input is made of: a byte that says what, and those that it needs; there
/// are zeros behind the end.
class Script {
 public:
  explicit Script(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}
  bool is_over() const { return bytes_.empty(); }
  std::uint8_t next() {
    if (bytes_.empty()) return 0;
    const std::uint8_t byte = bytes_.front();
    bytes_ = bytes_.subspan(1);
    return byte;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// As a whole, and in pieces.
constexpr std::uint64_t times_played = 2;

/// One connection after the other, which each carry some bytes.
using Connections = std::vector<std::vector<std::byte>>;

/// Frames whose numbers mostly follow each other, as a right sender's do.
class Sender {
 public:
  Connections play(Script script) {
    while (!script.is_over()) {
      const std::uint8_t what = script.next();
      if (what % 16 == 15)
        connections_.emplace_back();
      else
        say(static_cast<tcp::FrameKind>(what % 16 % 10), script);
    }
    return std::move(connections_);
  }

 private:
  void say(tcp::FrameKind kind, Script& script) {
    const bool has_bytes = kind == tcp::FrameKind::eager || kind == tcp::FrameKind::announce ||
                           kind == tcp::FrameKind::data;
    const bool is_numbered = kind <= tcp::FrameKind::ask;
    const std::uint8_t number = script.next();
    tcp::Frame frame{.kind = kind, .tag = script.next() % 3u, .number = number};
    if (is_numbered && number < 224) frame.number = next_++;
    frame.value = script.next();
    if (has_bytes) frame.length = script.next();
    tcp::Head head = tcp::head_of(frame);
    const std::uint8_t damage = script.next();
    if (damage >= 240) head[script.next() % head.size()] ^= std::byte{1};
    frames.count += times_played;
    auto& to = connections_.back();
    to.insert(to.end(), head.begin(), head.end());
    to.insert(to.end(), frame.length, std::byte{damage});
  }

  Connections connections_{1};
  std::uint64_t next_ = 1;
};

/// The other side, which receives some of it, and has sent two messages of its own.
class Receiver final : tcp::Post, tcp::Sorter {
 public:
  Receiver() {
    for (int i = 0; i < 12; ++i) {
      auto& room = rooms_.emplace_back(std::make_unique<std::array<std::byte, 100>>());
      tcp::Receiving& one = receives_.emplace_back();
      one.from = 0;
      one.tag = static_cast<std::uint64_t>(i % 2);
      one.data = room->data();
      one.room = room->size();
      box_.post(one);
    }
    for (tcp::Sending& one : sends_) {
      one.to = 0;
      one.data = sent_.data();
      one.bytes = &one == &sends_.front() ? 100 : sent_.size();
      link_.start(one);
    }
  }
  ~Receiver() override {
    for (tcp::Sending& one : sends_) link_.withdraw(one);
    box_.close();
  }

  /// What has become of each receive, and of the connections.
  std::string hear(const Connections& connections, std::size_t piece) {
    for (std::size_t turn = 0; turn < connections.size(); ++turn) {
      connect(turn + 1);
      for (std::span<const std::byte> rest = connections[turn]; !rest.empty();) {
        const auto some = rest.first(std::min(piece, rest.size()));
        rest = rest.subspan(some.size());
        if (!link_.is_up()) break;
        fuzz::require(send(peer_.number(), some.data(), some.size(), MSG_NOSIGNAL) ==
                          static_cast<ssize_t>(some.size()),
                      "a pipe has room for an input");
        link_.on_event(EPOLLIN, scratch_);
        forget_replies();
      }
      result_ += why_lost() + ";";
    }
    for (const tcp::Sending& one : sends_) result_ += one.done ? "sent;" : "-;";
    for (const tcp::Receiving& one : receives_) tell(one);
    return result_;
  }

 private:
  void want(tcp::Incoming& message) override { link_.want(message); }
  void settle(tcp::Incoming& message) override {
    if (message.link != nullptr) message.link->settle(message);
  }
  void finish(tcp::Receiving& receive) override { receive.done = true; }
  bool sort(const std::shared_ptr<tcp::Incoming>& message) override {
    if (message->group != 0) return false;
    box_.arrive(message);
    return true;
  }

  void connect(std::uint64_t turn) {
    std::array<int, 2> ends{};
    fuzz::require(
        ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0,
        "there are descriptors");
    peer_ = Descriptor(ends[1]);
    link_.meet(Descriptor(ends[0]), {.from = 0, .to = 1, .turn = turn});
  }
  /// Empty: it is not. Without the time.
  std::string why_lost() const {
    const std::string trouble = link_.trouble(std::chrono::steady_clock::now());
    return trouble.substr(trouble.find(':') + 1);
  }
  void forget_replies() {
    while (::recv(peer_.number(), scratch_.data(), scratch_.size(), 0) > 0) continue;
  }
  void tell(const tcp::Receiving& one) {
    result_ += one.done ? std::to_string(one.bytes) : "-";
    if (!one.done || one.error || one.bytes > one.room) return;
    result_.append(reinterpret_cast<const char*>(one.data), one.bytes);
  }

  tcp::Poller poller_;
  tcp::Mailbox box_{*this};
  const tcp::LinkSite site_{.rank = 1, .finish = [](tcp::Sending& one) { one.done = true; }};
  tcp::Link link_{0, site_, poller_, *this};
  Descriptor peer_;
  std::vector<std::byte> scratch_ = std::vector<std::byte>(4096);
  std::vector<std::unique_ptr<std::array<std::byte, 100>>> rooms_;
  std::list<tcp::Receiving> receives_;
  std::vector<std::byte> sent_ = std::vector<std::byte>(tcp::eager_limit + 1);
  std::array<tcp::Sending, 2> sends_;
  std::string result_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script(std::span(data, std::min<std::size_t>(size, 1024)));
  const std::size_t piece = script.next() + std::size_t{1};
  const Connections connections = Sender().play(script);
  const std::string whole = Receiver().hear(connections, 16384);
  fuzz::require(Receiver().hear(connections, piece) == whole,
                "what comes is the same whatever the pieces it comes in");
  return 0;
}
