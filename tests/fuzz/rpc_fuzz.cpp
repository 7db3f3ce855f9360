// Bytes that a damaged worker may have sent over a link that it has proved: whatever they are, they
// are taken as messages or refused, nothing large is set aside for what never comes, and an agent
// that has got them carries calls out, answers them, and ends.
//
// An input that begins with the 'h' of a message's head is what came. Any other one is a list of
// messages to be made: the number of a kind below, how many bytes of it are changed, and these.
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "hymn/rpc.hpp"
#include "rpc/agent_state.hpp"
#include "rpc/errors.hpp"
#include "rpc/message.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/rpc_engine.hpp"

namespace {

using namespace hymn;
using namespace hymn::rpc::detail;

constexpr std::size_t most_bytes = std::size_t{1} << 16;
constexpr int own_rank = 0;
constexpr int sender = 1;

fuzz::Tally carried_out{"calls carried out"};

const auto join_all = rpc::register_function(
    "join", [](const std::vector<std::string>& texts, const rpc::Buffer& buffer) {
      ++carried_out.count;
      std::string all(reinterpret_cast<const char*>(buffer.bytes().data()), buffer.size());
      for (const std::string& text : texts) all += text;
      return all;
    });
const auto give_back = rpc::register_function("back", [](const rpc::RemoteRef<int>& ref) {
  ++carried_out.count;
  return ref;
});
const auto make_number = rpc::register_function("number", [] { return 7; });
const auto refuse_all = rpc::register_function(
    "refuse", [](const std::string& text) { throw std::runtime_error(text); });

template <class... Args, class R>
Message request(std::uint64_t call, const rpc::Function<R(Args...)>& function, Packed arguments) {
  Message message;
  message.head.kind = MessageKind::request;
  message.head.call = call;
  message.head.type = function.signature().number();
  message.name = function.name();
  message.packed = std::move(arguments);
  return message;
}

Message plain(MessageKind kind, std::uint64_t call = 1, Packed packed = {}) {
  Message message;
  message.head.kind = kind;
  message.head.call = call;
  message.head.ref = 1;
  message.head.creator = own_rank;
  message.head.forker = sender;
  message.packed = std::move(packed);
  return message;
}

std::vector<Message> examples() {
  std::vector<Message> all;
  all.push_back(
      request(1, join_all, pack(std::vector<std::string>{"a", "bc"}, rpc::Buffer::copy_of({}))));
  const std::vector<std::byte> large(5000, std::byte{'x'});
  all.push_back(
      request(2, join_all, pack(std::vector<std::string>{}, rpc::Buffer::copy_of(large))));
  all.push_back(request(3, make_number, pack()));
  all.push_back(request(4, make_number, pack()));
  all.back().head.flags = keeps_value;
  all.back().head.creator = sender;
  all.back().head.ref = 5;
  all.push_back(request(5, refuse_all, pack(std::string("no"))));
  // As a reference is written: that there is one, and its number in the message.
  all.push_back(request(6, give_back, pack(true, std::uint64_t{0})));
  for (const int owner : {own_rank, sender, 2}) {
    all.back().refs = {{.owner = owner,
                        .creator = owner,
                        .number = 1,
                        .fork = 9,
                        .type = type_number(typeid(int))}};
    all.push_back(all.back());
  }
  all.push_back(plain(MessageKind::response, 1, pack(3)));
  all.push_back(plain(MessageKind::response, 2, pack(std::string("text"))));
  all.push_back(plain(MessageKind::response, 3, pack(Nothing{})));
  const rpc::RemoteOrigin origin(sender, "b", "f", "x.cpp:1");
  for (const std::exception_ptr& error :
       {std::make_exception_ptr(std::out_of_range("far")),
        std::make_exception_ptr(PeerError("lost", {.rank = 1, .missing = {2}}))})
    all.push_back(plain(MessageKind::failure, 1, pack_error(error, origin)));
  for (auto kind = static_cast<int>(MessageKind::request);
       kind <= static_cast<int>(MessageKind::goodbye); ++kind)
    all.push_back(plain(static_cast<MessageKind>(kind)));
  all.push_back(plain(MessageKind::shutdown_tell, 1, pack(CallCounts{{1, 0, 2}, {0, 1, 2}})));
  return all;
}

std::vector<std::byte> bytes_of(Message message) {
  OutMessage out(std::move(message));
  std::vector<std::byte> bytes;
  while (out.left() > 0) {
    iovec piece{};
    (void)out.pieces({&piece, 1});
    const auto* const from = static_cast<const std::byte*>(piece.iov_base);
    bytes.insert(bytes.end(), from, from + piece.iov_len);
    out.advance(piece.iov_len);
  }
  return bytes;
}

const std::vector<std::vector<std::byte>>& example_bytes() {
  static const auto* const all = [] {
    auto* const made = new std::vector<std::vector<std::byte>>();
    for (Message& message : examples()) made->push_back(bytes_of(std::move(message)));
    return made;
  }();
  return *all;
}

/// What came, of an input that is a list.
std::vector<std::byte> made_of(std::span<const std::uint8_t> list) {
  constexpr int most_messages = 16;  // so that many lists are tried, rather than long ones
  std::vector<std::byte> bytes;
  for (int i = 0; i < most_messages && list.size() >= 2; ++i) {
    auto example = example_bytes()[list[0] % example_bytes().size()];
    const std::size_t changes = list[1] % 16;
    list = list.subspan(2);
    for (std::size_t j = 0; j < changes && list.size() >= 3; ++j, list = list.subspan(3))
      example[(list[0] + 256u * list[1]) % example.size()] = static_cast<std::byte>(list[2]);
    bytes.insert(bytes.end(), example.begin(), example.end());
  }
  return bytes;
}

/// An agent of three workers that has made calls, and keeps a value.
class Receiver {
 public:
  Receiver() {
    AgentState& state = *state_;
    Links links;
    for (int rank = 0; rank < 3; ++rank) {
      links.sockets.emplace_back(rank == own_rank ? -1 : ::dup(STDERR_FILENO));
      links.pids.push_back(0);
      links.streamers.push_back(-1);
    }
    state.start(std::move(links));
    call(request(0, make_number, pack()), numbers_);
    call(request(0, refuse_all, pack(std::string("text"))), texts_);
    kept_ = state.keep(stored(1));
    made_ = state.call_and_keep(sender, {make_number.name(), make_number.signature()}, pack(), {});
  }
  ~Receiver() {
    kept_ = made_ = nullptr;
    state_->abort("the input has ended");
    fuzz::require(numbers_->future().is_ready() && texts_->future().is_ready(),
                  "calls have an outcome");
    fuzz::require(state_->use().calls == 0 && state_->use().served == 0, "no call is kept");
    fuzz::require(state_.use_count() == 1, "nothing keeps an agent that has ended");
  }
  Receiver(const Receiver&) = delete;
  Receiver& operator=(const Receiver&) = delete;

  /// In two parts, which may be cut anywhere.
  void take(std::span<const std::byte> bytes) {
    const std::size_t cut = bytes.empty() ? 0 : bytes.size() * 2 / 3;
    try {
      feed(bytes.first(cut));
      feed(bytes.subspan(cut));
    } catch (const std::exception& error) {
      fuzz::require(error.what()[0] != 0, "an error has a text");
      fuzz::rpc_events().lost(sender, error.what());
    }
  }

 private:
  template <class T>
  using Outcome = std::shared_ptr<PendingValue<T>>;

  static std::shared_ptr<AgentState> make() {
    Acquaintance known{.rank = own_rank};
    for (int rank = 0; rank < 3; ++rank) {
      known.workers.push_back({std::string(1, static_cast<char>('a' + rank)), rank});
      known.most_bytes.push_back(most_bytes);
    }
    return std::make_shared<AgentState>(
        std::move(known), rpc::AgentOptions{.threads = 1, .max_message_bytes = most_bytes});
  }
  template <class T>
  void call(Message message, const Outcome<T>& outcome) {
    state_->call(sender, "f", std::move(message), outcome, {});
  }
  void feed(std::span<const std::byte> bytes) {
    std::vector<Message> messages;
    try {
      reader_.feed(bytes, messages);
    } catch (...) {
      pass(messages);
      throw;
    }
    pass(messages);
  }
  static void pass(std::vector<Message>& messages) {
    for (Message& message : messages) {
      fuzz::require(message.payload_bytes() <= most_bytes, "no message is larger than the limit");
      fuzz::rpc_events().message(sender, std::move(message));
    }
  }

  std::shared_ptr<AgentState> state_ = make();
  MessageReader reader_{most_bytes};
  Outcome<int> numbers_ = std::make_shared<PendingValue<int>>();
  Outcome<std::string> texts_ = std::make_shared<PendingValue<std::string>>();
  RefPtr kept_;
  RefPtr made_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > most_bytes) return 0;
  const std::span<const std::uint8_t> input(data, size);
  Receiver receiver;
  if (size == 0 || input[0] == 'h')
    receiver.take(std::as_bytes(input));
  else
    receiver.take(made_of(input));
  return 0;
}
