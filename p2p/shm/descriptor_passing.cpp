#include "p2p/shm/descriptor_passing.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr int socket_kind = SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK;

/// An abstract name: it begins with a zero byte, and is in no file system.
struct Address {
  explicit Address(const std::string& name) {
    bytes.sun_family = AF_UNIX;
    std::memcpy(bytes.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&bytes); }
  sockaddr_un bytes{};
  socklen_t length = 0;
};

bool is_same_user(const Descriptor& connection) {
  ucred peer{};
  socklen_t length = sizeof peer;
  return getsockopt(connection.number(), SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0 &&
         peer.uid == geteuid();
}

/// One byte that carries a descriptor.
struct Parcel {
  Parcel() {
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  char byte = 'h';
  iovec content{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
};

Descriptor unpack(const Parcel& parcel) {
  const cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int)))
    return {};
  int number = -1;
  std::memcpy(&number, CMSG_DATA(header), sizeof number);
  return Descriptor(number);
}

bool wait_for(const Descriptor& socket, TimePoint end) {
  pollfd poll_for{socket.number(), POLLIN, 0};
  int ready = 0;
  do {
    const auto rest = std::max(end - std::chrono::steady_clock::now(), Duration(0));
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(rest).count();
    ready = poll(&poll_for, 1, static_cast<int>(milliseconds));
  } while (ready < 0 && errno == EINTR);
  return ready > 0;
}

}  // namespace

std::unique_ptr<DescriptorListener> DescriptorListener::open() noexcept {
  std::unique_ptr<DescriptorListener> made(new DescriptorListener());
  std::uint64_t number[2] = {};
  Descriptor listener(socket(AF_UNIX, socket_kind, 0));
  if (!listener || getrandom(number, sizeof number, 0) != sizeof number) return made;
  std::string name = fmt::format("hymn-{:016x}{:016x}", number[0], number[1]);
  const Address address(name);
  if (bind(listener.number(), address.get(), address.length) != 0 ||
      listen(listener.number(), 8) != 0)
    return made;
  made->listener_ = std::move(listener);
  made->name_ = std::move(name);
  return made;
}

Bytes DescriptorListener::address() const {
  Packer packer;
  credentials_.pack(packer);
  packer.text(name_);
  return packer.packed();
}

bool DescriptorListener::is_reusable() const {
  pollfd waiting{listener_.number(), POLLIN, 0};
  return listener_ && poll(&waiting, 1, 0) == 0 && credentials_ == Credentials::of_this_process();
}

// Nothing when nobody came, or the wrong one.
Descriptor DescriptorListener::take_one(TimePoint end) {
  if (!wait_for(listener_, end)) return {};
  const Descriptor connection(accept4(listener_.number(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!connection || !is_same_user(connection) || !wait_for(connection, end)) return {};
  Parcel parcel;
  if (recvmsg(connection.number(), &parcel.message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) < 0) return {};
  return unpack(parcel);
}

Descriptor DescriptorListener::receive(const MemoryKey& key, Duration limit) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  const auto end = now() + limit;
  std::string wrong = listener_ ? "" : "; this process could not make a socket";
  while (listener_ && now() < end) {
    Descriptor memory = take_one(end);
    if (!memory) continue;
    try {
      check_nameless_memory(memory, key);
      return memory;
    } catch (const ResourceError& error) {
      wrong = "; " + error.problem();
    }
  }
  throw ResourceError(fmt::format("process {}, which made the shared memory, may not be inspected, "
                                  "and has not passed its descriptor through a socket{}",
                                  key.pid, wrong),
                      {.remedy = "run the ranks of a host as one user in one PID namespace"});
}

void pass_descriptor(const Descriptor& memory, const Credentials& maker,
                     std::span<const std::byte> address) {
  Unpacker unpacker(address);
  const Credentials member = Credentials::unpack(unpacker);
  const std::string name = unpacker.text();
  if (name.empty() || name.size() >= sizeof(sockaddr_un::sun_path) ||
      way_between(maker, member) != WayToMemory::descriptor_passing)
    return;
  const Descriptor connection(socket(AF_UNIX, socket_kind, 0));
  const Address to(name);
  if (!connection || connect(connection.number(), to.get(), to.length) != 0 ||
      !is_same_user(connection))
    return;
  Parcel parcel;
  cmsghdr* header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  const int number = memory.number();
  std::memcpy(CMSG_DATA(header), &number, sizeof number);
  // If it does not arrive, the other says so.
  [[maybe_unused]] const ssize_t sent =
      sendmsg(connection.number(), &parcel.message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace hymn
