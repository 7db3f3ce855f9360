// Bytes that a damaged worker may have sent over a link that it has proved: whatever they are, they
// are taken as messages or refused, and nothing large is set aside for what never comes.
#include <sys/socket.h>
#include <unistd.h>

#include <span>
#include <vector>

#include "rpc/message.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace hymn;
using rpc::detail::Message;
using rpc::detail::MessageReader;

constexpr std::size_t most_bytes = std::size_t{1} << 16;

struct Ends {
  Ends() { fuzz::require(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "there are sockets"); }
  ~Ends() {
    ::close(ends[0]);
    ::close(ends[1]);
  }
  int ends[2] = {-1, -1};
};

/// Half of it as values of a call, where it is a message.
void unpack(Message& message) {
  std::vector<std::string> texts;
  rpc::Buffer buffer;
  try {
    rpc::detail::unpack(message.packed, texts, buffer);
  } catch (const PeerError& error) {
    fuzz::require(!error.problem().empty(), "an error has a text");
  }
}

void read_all(int socket) {
  MessageReader reader(most_bytes);
  std::vector<Message> messages;
  try {
    while (reader.read(socket, messages)) {
    }
  } catch (const NetworkError& error) {
    fuzz::require(!error.problem().empty(), "an error has a text");
  }
  for (Message& message : messages) {
    fuzz::require(message.payload_bytes() <= most_bytes, "no message is larger than the limit");
    unpack(message);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > most_bytes) return 0;
  const Ends ends;
  if (::send(ends.ends[0], data, size, MSG_DONTWAIT) != static_cast<ssize_t>(size)) return 0;
  ::shutdown(ends.ends[0], SHUT_WR);
  read_all(ends.ends[1]);
  return 0;
}
