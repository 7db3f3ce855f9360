#include "control/socket_mesh.hpp"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <list>
#include <optional>
#include <string_view>
#include <utility>

#include "control/frame.hpp"
#include "control/handshake.hpp"
#include "control/interface.hpp"
#include "control/sockets.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr std::size_t most_guests = 64;  // beside one for each rank that may come
constexpr Duration guest_limit = std::chrono::seconds(5);

int left_ms(Deadline deadline, Duration at_most) {
  const auto now = std::chrono::steady_clock::now();
  Duration left = at_most;
  if (!deadline.is_never()) left = std::min<Duration>(left, deadline.when() - now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
  return static_cast<int>(std::max<std::int64_t>(ms, 0));
}

bool has_passed(Deadline deadline) { return deadline.expired(std::chrono::steady_clock::now()); }

void tune_mesh_socket(int socket) {
  const int on = 1;
  // A local socket does not grow by itself; no more than net.core.wmem_max is given.
  int family = AF_INET;
  socklen_t size = sizeof(family);
  ::getsockopt(socket, SOL_SOCKET, SO_DOMAIN, &family, &size);
  if (family == AF_UNIX) {
    const int bytes = 4 << 20;
    ::setsockopt(socket, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
    return;
  }
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // No TCP_USER_TIMEOUT, which also ends a connection to who acknowledges, but reads nothing.
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  const int seconds = 2;
  const int unanswered = 4;
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof(seconds));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof(seconds));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &unanswered, sizeof(unanswered));
}

/// A few hundred bytes into a new connection, which has room for them.
bool send_all(int socket, std::span<const std::byte> bytes) {
  return ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

/// Where to connect to: "10.0.0.1:4711", or on this host "@name", which is in no folder.
struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;

  const sockaddr* data() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  int family() const { return bytes.ss_family; }
};

Address local_address(std::string_view name) {
  Address address;
  auto* const local = reinterpret_cast<sockaddr_un*>(&address.bytes);
  if (name.size() >= sizeof(local->sun_path))
    throw ConfigError("the name of a local socket is too long");
  local->sun_family = AF_UNIX;
  // The first byte is 0: so it is no path.
  std::copy(name.begin(), name.end(), local->sun_path + 1);
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

Address address_of(const Endpoint& endpoint) {
  Address address;
  address.size = static_cast<socklen_t>(endpoint.size());
  std::memcpy(&address.bytes, endpoint.data(), endpoint.size());
  return address;
}

Address parse_address(const std::string& text) {
  if (text.starts_with('@')) return local_address(std::string_view(text).substr(1));
  return address_of(parse_endpoint(text));
}

Descriptor new_socket(int family) {
  Descriptor made(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!made)
    throw ResourceError(fmt::format("no socket can be made: {}", std::strerror(errno)),
                        {.remedy = "raise the limit of open files (ulimit -n)"});
  return made;
}

/// Somebody who has connected, and proved nothing yet.
struct Guest {
  Descriptor socket;
  ServerHandshake handshake;
  Deadline deadline = Deadline::after(guest_limit);
  FrameReader reader{FrameReader::stranger_limit};
};

/// The end of a connection that has to prove itself to a rank below. Reads no byte too many: what
/// follows the welcome is not the handshake's.
class Caller {
 public:
  Caller(int rank, int peer, Deadline deadline) : rank_(rank), peer_(peer), deadline_(deadline) {}

  Descriptor call(const Address& where, const Token& token, const std::string& service) {
    socket_ = new_socket(where.family());
    connect_to(where);
    ClientHandshake handshake(token, service, rank_);
    say(greeting());
    std::array<std::byte, 8> greeted{};
    read(greeted);
    if (greeted != greeting()) throw NetworkError("it does not speak hymn's protocol");
    say(frame(handshake.hello(next_frame())));
    handshake.check(next_frame());
    tune_mesh_socket(socket_.number());
    return std::move(socket_);
  }

 private:
  void connect_to(const Address& where) {
    int error = 0;
    // A local listener with a full queue says so by EAGAIN.
    while ((error = ::connect(socket_.number(), where.data(), where.size) == 0 ? 0 : errno) ==
               EAGAIN &&
           !has_passed(deadline_))
      ::usleep(1000);
    if (error == EINPROGRESS) {
      wait_for(POLLOUT);
      socklen_t size = sizeof(error);
      ::getsockopt(socket_.number(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
    if (error != 0) throw NetworkError(std::strerror(error));
  }
  void wait_for(short what) {
    pollfd waited{socket_.number(), what, 0};
    while (::poll(&waited, 1, left_ms(deadline_, std::chrono::seconds(1))) <= 0)
      if (has_passed(deadline_))
        throw TimeoutError(fmt::format("rank {} does not answer", peer_), Duration{0},
                           {.rank = rank_, .missing = {peer_}});
  }
  void read(std::span<std::byte> to) {
    while (!to.empty()) {
      const ssize_t got = ::recv(socket_.number(), to.data(), to.size(), 0);
      if (got > 0)
        to = to.subspan(static_cast<std::size_t>(got));
      else if (got < 0 && (errno == EAGAIN || errno == EINTR))
        wait_for(POLLIN);
      else
        throw NetworkError("it has closed the connection before it proved itself");
    }
  }
  void say(std::span<const std::byte> bytes) {
    if (!send_all(socket_.number(), bytes)) throw NetworkError("the connection was lost");
  }
  Bytes next_frame() {
    std::array<std::byte, 4> length{};
    read(length);
    std::size_t size = 0;
    for (std::size_t i = 0; i < length.size(); ++i)
      size |= std::to_integer<std::size_t>(length[i]) << (8 * i);
    if (size > FrameReader::stranger_limit) throw NetworkError("its answer is too long");
    Bytes payload(size);
    read(payload);
    return payload;
  }

  int rank_;
  int peer_;
  Deadline deadline_;
  Descriptor socket_;
};

class ProvedMesh final : public SocketMesh {
 public:
  explicit ProvedMesh(const SocketMeshOptions& options) : options_(options) {
    if (options.one_host)
      listen_locally();
    else
      listen_at_interface();
  }

  const std::string& endpoint() const override { return endpoint_; }

  std::vector<Descriptor> connect(const std::string& token,
                                  const std::vector<std::string>& endpoints,
                                  Deadline deadline) override {
    token_ = Token::parse(token);
    sockets_ = std::vector<Descriptor>(static_cast<std::size_t>(options_.size));
    for (int peer = 0; peer < options_.rank; ++peer) reach(peer, endpoints, deadline);
    while (!waited_for().empty()) let_in(deadline);
    listener_ = Descriptor();
    guests_.clear();
    return std::move(sockets_);
  }

 private:
  /// Half the time of the loopback's.
  void listen_locally() {
    const Nonce drawn = random_nonce();
    endpoint_ = fmt::format("@hymn-{}-{}-", options_.service, ::getpid());
    for (std::size_t i = 0; i < 8; ++i)
      endpoint_ += fmt::format("{:02x}", std::to_integer<unsigned>(drawn[i]));
    listen_at_address(parse_address(endpoint_));
  }

  void listen_at_interface() {
    const auto chosen =
        choose_interface(interface_addresses(), options_.interface, false, "HYMN_INTERFACE");
    Endpoint where(chosen.address, 0);
    endpoint_ = to_string(where);
    listen_at_address(address_of(where));
    auto size = static_cast<socklen_t>(where.capacity());
    ::getsockname(listener_.number(), where.data(), &size);
    endpoint_ = to_string(where);
  }

  void listen_at_address(const Address& address) {
    listener_ = new_socket(address.family());
    if (::bind(listener_.number(), address.data(), address.size) != 0 ||
        ::listen(listener_.number(), SOMAXCONN) != 0)
      throw NetworkError(fmt::format("rank {} cannot listen at {}: {}", options_.rank, endpoint_,
                                     std::strerror(errno)));
  }

  Descriptor& socket_of(int rank) { return sockets_[static_cast<std::size_t>(rank)]; }

  void reach(int peer, const std::vector<std::string>& endpoints, Deadline deadline) {
    const std::string& text = endpoints[static_cast<std::size_t>(peer)];
    try {
      socket_of(peer) =
          Caller(options_.rank, peer, deadline).call(parse_address(text), token_, options_.service);
    } catch (const NetworkError& error) {
      throw NetworkError(
          fmt::format("rank {} at {} cannot be reached: {}", peer, text, error.problem()),
          {.rank = options_.rank, .remedy = error.context().remedy, .missing = {peer}});
    }
  }

  std::vector<int> waited_for() {
    std::vector<int> ranks;
    for (int rank = options_.rank + 1; rank < options_.size; ++rank)
      if (!socket_of(rank)) ranks.push_back(rank);
    return ranks;
  }

  void let_in(Deadline deadline) {
    if (has_passed(deadline))
      throw TimeoutError(fmt::format("ranks {} have not connected", fmt::join(waited_for(), ", ")),
                         Duration{0}, {.rank = options_.rank, .missing = waited_for()});
    std::vector<pollfd> waited{{listener_.number(), POLLIN, 0}};
    for (const Guest& guest : guests_) waited.push_back({guest.socket.number(), POLLIN, 0});
    ::poll(waited.data(), waited.size(), left_ms(deadline, std::chrono::milliseconds(200)));
    std::size_t place = 1;
    for (auto guest = guests_.begin(); guest != guests_.end(); ++place) {
      const bool speaks = waited[place].revents != 0;
      const bool stays = speaks ? listen_to(*guest) : !has_passed(guest->deadline);
      guest = stays ? std::next(guest) : guests_.erase(guest);
    }
    if (waited.front().revents != 0) accept_guest();
  }

  void accept_guest() {
    Descriptor socket(
        ::accept4(listener_.number(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket) return;
    if (guests_.size() >= most_guests + waited_for().size()) guests_.pop_front();
    guests_.push_back(Guest{std::move(socket), ServerHandshake(token_, options_.service)});
    const Guest& guest = guests_.back();
    if (!send_all(guest.socket.number(), greeting()) ||
        !send_all(guest.socket.number(), frame(guest.handshake.challenge())))
      guests_.pop_back();
  }

  /// False when the connection is no guest's any more.
  bool listen_to(Guest& guest) {
    std::array<std::byte, 512> bytes{};
    const ssize_t got = ::recv(guest.socket.number(), bytes.data(), bytes.size(), 0);
    if (got < 0) return errno == EAGAIN || errno == EINTR;
    if (got == 0) return false;
    try {
      guest.reader.feed(std::span(bytes).first(static_cast<std::size_t>(got)));
      const auto hello = guest.reader.next();
      if (!hello) return true;
      admit(guest, guest.handshake.accept(*hello));
    } catch (const Error&) {
      (void)send_all(guest.socket.number(), frame(refusal()));
    }
    return false;
  }

  void admit(Guest& guest, const ServerHandshake::Guest& known) {
    const bool may_come = known.rank > options_.rank && known.rank < options_.size;
    if (!may_come || socket_of(known.rank)) throw NetworkError("nobody waits for this rank");
    if (!send_all(guest.socket.number(), frame(known.welcome))) return;
    tune_mesh_socket(guest.socket.number());
    socket_of(known.rank) = std::move(guest.socket);
  }

  SocketMeshOptions options_;
  Token token_;
  Descriptor listener_;
  std::string endpoint_;
  std::vector<Descriptor> sockets_;
  std::list<Guest> guests_;
};

}  // namespace

std::unique_ptr<SocketMesh> listen_for_mesh(const SocketMeshOptions& options) {
  return std::make_unique<ProvedMesh>(options);
}

std::string new_mesh_token() { return Token::random().text(); }

}  // namespace hymn
