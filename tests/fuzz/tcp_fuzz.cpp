// What a rank that knows the token may say on its connections to another, right or damaged, in
// pieces of any size.
#include <poll.h>
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

/// What is said by one stream of a connection.
struct Saying {
  std::uint64_t stream = 0;
  std::vector<std::byte> bytes{};
};
/// One connection after the other.
using Connections = std::vector<std::vector<Saying>>;

constexpr std::uint64_t streams = 4;
/// For a message that is worth streams.
constexpr std::uint64_t large = 2 * tcp::worth_streams;

/// Frames whose numbers mostly follow each other, as a right sender's do.
class Sender {
 public:
  Connections play(Script script) {
    while (!script.is_over()) {
      const std::uint8_t what = script.next();
      if (what % 16 == 15)
        connections_.push_back({{}});
      else if (what % 16 == 14)
        connections_.back().push_back({.stream = script.next() % (streams + 1)});
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
    auto& to = connections_.back().back().bytes;
    to.insert(to.end(), head.begin(), head.end());
    to.insert(to.end(), frame.length, std::byte{damage});
  }

  Connections connections_{{{}}};
  std::uint64_t next_ = 1;
};

/// Two sockets that are connected to each other.
std::array<Descriptor, 2> make_pipe() {
  std::array<int, 2> ends{};
  fuzz::require(
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()) == 0,
      "there are descriptors");
  constexpr int bytes = 1 << 20;
  ::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Where the other side connects to, if it is the one that does.
class Listener {
 public:
  tcp::Address address() const { return tcp::Address::of(socket_.number()); }
  /// Who has connected, if anybody has.
  Descriptor accept(int limit_ms) const {
    pollfd one{.fd = socket_.number(), .events = POLLIN, .revents = 0};
    if (::poll(&one, 1, limit_ms) != 1) return {};
    int problem = 0;
    Descriptor socket = tcp::accept_one(socket_.number(), problem);
    constexpr linger none{.l_onoff = 1, .l_linger = 0};  // so that no ports are taken for long
    if (socket) ::setsockopt(socket.number(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
    return socket;
  }

 private:
  Descriptor socket_ = tcp::listen_at(tcp::Address::parse("127.0.0.1", "0"));
};

const Listener& listener() {
  static const Listener one;
  return one;
}

/// The other side, which receives some of it, and has sent messages of its own.
class Receiver final : tcp::Post, tcp::Sorter {
 public:
  /// `connects`: it makes the first connection, and streams of it, where a large message is
  /// granted.
  explicit Receiver(bool connects) : connects_(connects) {
    for (int i = 0; i < 12; ++i) {
      auto& room = rooms_.emplace_back(std::make_unique<std::array<std::byte, 100>>());
      tcp::Receiving& one = receives_.emplace_back();
      one.from = 0;
      one.tag = static_cast<std::uint64_t>(i % 2);
      one.data = room->data();
      one.room = room->size();
      box_.post(one);
    }
    if (connects_) link_.introduce(listener().address(), {});
    const std::array<std::uint64_t, 3> lengths = {100, tcp::eager_limit + 1,
                                                  connects_ ? large : 200};
    for (std::size_t i = 0; i < sends_.size(); ++i) {
      sends_[i].to = 0;
      sends_[i].data = sent().data();
      sends_[i].bytes = lengths[i];
      link_.start(sends_[i]);
    }
  }
  ~Receiver() override {
    for (tcp::Sending& one : sends_) link_.withdraw(one);
    box_.close();
  }

  /// What has become of each receive, and of the connections.
  std::string hear(const Connections& connections, std::size_t piece) {
    for (std::size_t i = 0; i < connections.size(); ++i) {
      turn_ = i + 1;
      peers_ = {};
      if (i == 0 && connects_)
        be_connected();
      else
        connect(0);
      for (const Saying& saying : connections[i]) say(saying, piece);
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

  void say(const Saying& saying, std::size_t piece) {
    if (saying.stream != 0) find(saying.stream);
    Descriptor& peer = peers_[saying.stream];
    for (std::span<const std::byte> rest = saying.bytes; !rest.empty() && peer;) {
      const auto some = rest.first(std::min(piece, rest.size()));
      rest = rest.subspan(some.size());
      if (!link_.is_up()) break;
      if (send(peer.number(), some.data(), some.size(), MSG_NOSIGNAL) < 0) break;  // it is closed
      happen(saying.stream, EPOLLIN);
      forget_replies();
    }
  }
  void happen(std::uint64_t stream, std::uint32_t events) {
    if (stream == 0)
      link_.on_event(events, scratch_);
    else
      link_.on_event_of(stream, events, scratch_);
  }
  void connect(std::uint64_t stream) {
    auto ends = make_pipe();
    try {
      link_.meet(std::move(ends[0]), {.from = 0,
                                      .to = 1,
                                      .turn = turn_,
                                      .stream = static_cast<std::uint32_t>(stream),
                                      .attempt = 1});
      peers_[stream] = std::move(ends[1]);
    } catch (const NetworkError&) {
      fuzz::require(stream != 0, "a connection with a higher turn is taken");
    }
  }
  /// Lets it say its hello, which is right, and answers.
  void be_connected() {
    Descriptor socket = listener().accept(1000);
    fuzz::require(static_cast<bool>(socket), "it has connected");
    happen(0, EPOLLOUT);
    answer(std::move(socket));
    happen(0, EPOLLIN);
  }
  /// The streams that it has made are there; or this side makes one.
  void find(std::uint64_t stream) {
    if (peers_[stream]) return;
    if (turn_ != 1 || !connects_) return connect(stream);
    while (Descriptor socket = listener().accept(0)) {
      for (std::uint64_t one = 1; one < streams; ++one) happen(one, EPOLLOUT);
      answer(std::move(socket));
      for (std::uint64_t one = 1; one < streams; ++one) happen(one, EPOLLIN);
    }
  }
  void answer(Descriptor socket) {
    tcp::Hello hello;
    pollfd one{.fd = socket.number(), .events = POLLIN, .revents = 0};
    ::poll(&one, 1, 1000);
    const auto bytes = ::recv(socket.number(), hello.data(), hello.size(), 0);
    if (bytes != static_cast<ssize_t>(hello.size())) return;  // it has lost the connection
    const tcp::Contact contact = tcp::read_hello(hello, {}, 0, {});
    fuzz::require(contact.from == 1 && contact.stream < streams && contact.turn == 1,
                  "a hello says who says it");
    const tcp::Welcome welcome = tcp::welcome_of({}, contact, streams);
    ::send(socket.number(), welcome.data(), welcome.size(), MSG_NOSIGNAL);
    peers_[contact.stream] = std::move(socket);
  }
  /// Empty: it is not. Without the time.
  std::string why_lost() const {
    const std::string trouble = link_.trouble(std::chrono::steady_clock::now());
    return trouble.substr(trouble.find(':') + 1);
  }
  void forget_replies() {
    for (const Descriptor& peer : peers_)
      while (peer && ::recv(peer.number(), scratch_.data(), scratch_.size(), 0) > 0) continue;
  }
  void tell(const tcp::Receiving& one) {
    result_ += one.done ? std::to_string(one.bytes) : "-";
    if (!one.done || one.error || one.bytes > one.room) return;
    result_.append(reinterpret_cast<const char*>(one.data), one.bytes);
  }

  tcp::Poller poller_;
  tcp::Mailbox box_{*this};
  static const std::vector<std::byte>& sent() {
    static const std::vector<std::byte> bytes(large);
    return bytes;
  }

  const bool connects_;
  const tcp::LinkSite site_{.rank = 1,
                            .limits = {.streams = streams},
                            .finish = [](tcp::Sending& one) { one.done = true; },
                            .logger = Logger(LogLevel::off, 1)};
  tcp::Link link_{0, site_, poller_, *this};
  std::uint64_t turn_ = 0;
  std::array<Descriptor, streams + 1> peers_;  ///< by stream
  std::vector<std::byte> scratch_ = std::vector<std::byte>(65536);
  std::vector<std::unique_ptr<std::array<std::byte, 100>>> rooms_;
  std::list<tcp::Receiving> receives_;
  std::array<tcp::Sending, 3> sends_;
  std::string result_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Script script(std::span(data, std::min<std::size_t>(size, 1024)));
  const std::size_t piece = script.next() + std::size_t{1};
  const bool connects = script.next() % 8 == 7;
  const Connections connections = Sender().play(script);
  const std::string whole = Receiver(connects).hear(connections, 65536);
  const std::string in_pieces = Receiver(connects).hear(connections, piece);
  // When the streams of one that connects are there the kernel decides.
  fuzz::require(connects || in_pieces == whole,
                "what comes is the same whatever the pieces it comes in");
  return 0;
}
