#include "rpc/message.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "hymn/error.hpp"

namespace hymn::rpc::detail {
namespace {

constexpr std::uint32_t message_magic = 0x43505268;  // "hRPC"
constexpr std::size_t most_name_bytes = 4096;
constexpr std::size_t most_parts = std::size_t{1} << 16;
constexpr std::size_t stock_bytes = std::size_t{64} << 10;
/// Reads of one link in a row, so that the others have their turn.
constexpr int most_reads = 32;

template <class T>
std::span<const std::byte> raw(std::span<const T> values) {
  return std::as_bytes(values);
}

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

[[noreturn]] void refuse(const std::string& what) {
  throw NetworkError(fmt::format("what it sends is no message: {}", what),
                     {.remedy = "let all ranks run the same version of hymn"});
}

bool is_kind(MessageKind kind) {
  return kind >= MessageKind::request && kind <= MessageKind::goodbye;
}

}  // namespace

std::size_t Message::payload_bytes() const {
  std::size_t bytes = packed.body.size();
  for (const Buffer& buffer : packed.buffers) bytes += buffer.size();
  return bytes;
}

void require_sendable(const Message& message, std::size_t most_bytes) {
  const Packed& packed = message.packed;
  if (message.payload_bytes() > most_bytes)
    throw UsageError(fmt::format("it has {} bytes, more than max_message_bytes, {}",
                                 message.payload_bytes(), most_bytes),
                     {.remedy = "raise AgentOptions::max_message_bytes on all workers"});
  if (message.name.size() > most_name_bytes)
    throw UsageError(fmt::format("the name of the function has {} letters: at most {} are possible",
                                 message.name.size(), most_name_bytes));
  if (packed.refs.size() > most_parts || packed.buffers.size() > most_parts)
    throw UsageError(
        fmt::format("it has {} references and {} large buffers: at most {} of each are possible",
                    packed.refs.size(), packed.buffers.size(), most_parts),
        {.remedy = "pass fewer of them in a call"});
}

OutMessage::OutMessage(Message message) : message_(std::move(message)) {
  MessageHead& head = message_.head;
  head.magic = message_magic;
  head.name_bytes = static_cast<std::uint32_t>(message_.name.size());
  head.refs = static_cast<std::uint32_t>(message_.refs.size());
  head.buffers = static_cast<std::uint32_t>(message_.packed.buffers.size());
  head.body_bytes = message_.packed.body.size();
  append(start_, raw(std::span<const MessageHead>(&head, 1)));
  append(start_, raw(std::span<const char>(message_.name)));
  append(start_, raw(std::span<const RefWire>(message_.refs)));
  for (const Buffer& buffer : message_.packed.buffers) {
    const std::uint64_t bytes = buffer.size();
    append(start_, raw(std::span<const std::uint64_t>(&bytes, 1)));
  }
  left_ = start_.size() + message_.payload_bytes();
}

std::size_t OutMessage::pieces(std::span<iovec> to) const {
  std::size_t count = 0;
  std::size_t skip = sent_;
  const auto add = [&](const std::byte* data, std::size_t bytes) {
    const std::size_t skipped = std::min(skip, bytes);
    skip -= skipped;
    if (skipped == bytes || count == to.size()) return;
    to[count++] = {const_cast<std::byte*>(data + skipped), bytes - skipped};
  };
  add(start_.data(), start_.size());
  add(message_.packed.body.data(), message_.packed.body.size());
  for (const Buffer& buffer : message_.packed.buffers) add(buffer.bytes().data(), buffer.size());
  return count;
}

void OutMessage::advance(std::size_t bytes) {
  sent_ += bytes;
  left_ -= bytes;
}

MessageReader::MessageReader(std::size_t most_bytes) : most_bytes_(most_bytes) { begin(); }

void MessageReader::begin() {
  message_ = Message{};
  stage_ = Stage::head;
  open_.assign(1, std::as_writable_bytes(std::span(&message_.head, 1)));
}

bool MessageReader::read(int socket, std::vector<Message>& arrived, bool all) {
  stock_.resize(stock_bytes);
  for (int turn = 0; all || turn < most_reads; ++turn) {
    // A large part goes to its place at once.
    const bool is_direct = open_.front().size() >= stock_.size();
    const std::span<std::byte> to = is_direct ? open_.front() : std::span(stock_);
    const ssize_t got = ::recv(socket, to.data(), to.size(), 0);
    if (got == 0) return false;
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN) return true;
      throw NetworkError(std::strerror(errno));
    }
    const auto bytes = static_cast<std::size_t>(got);
    if (is_direct) open_.front() = open_.front().subspan(bytes);
    feed(is_direct ? std::span<const std::byte>() : to.first(bytes), arrived);
    if (!all && !is_direct && bytes < stock_.size()) return true;  // that was all
  }
  return true;
}

void MessageReader::feed(std::span<const std::byte> bytes, std::vector<Message>& arrived) {
  for (;;) {
    while (!open_.empty() && open_.front().empty()) open_.pop_front();
    if (open_.empty()) {
      next_stage(arrived);
      continue;
    }
    if (bytes.empty()) return;
    std::span<std::byte>& to = open_.front();
    const std::size_t now = std::min(to.size(), bytes.size());
    std::memcpy(to.data(), bytes.data(), now);
    bytes = bytes.subspan(now);
    to = to.subspan(now);
  }
}

void MessageReader::next_stage(std::vector<Message>& arrived) {
  switch (stage_) {
    case Stage::head:
      take_head();
      stage_ = Stage::prefix;
      return;
    case Stage::prefix:
      take_prefix();
      stage_ = Stage::payload;
      return;
    case Stage::payload:
      arrived.push_back(std::move(message_));
      begin();
      return;
  }
}

void MessageReader::take_head() {
  const MessageHead& head = message_.head;
  if (head.magic != message_magic || !is_kind(head.kind)) refuse("its head is damaged");
  if (head.name_bytes > most_name_bytes || head.refs > most_parts || head.buffers > most_parts ||
      head.body_bytes > most_bytes_)
    refuse("a part of it is too large");
  prefix_.resize(head.name_bytes + head.refs * sizeof(RefWire) +
                 head.buffers * sizeof(std::uint64_t));
  open_.emplace_back(prefix_);
}

void MessageReader::take_prefix() {
  const MessageHead& head = message_.head;
  std::span<const std::byte> rest(prefix_);
  const auto take = [&](void* to, std::size_t bytes) {
    if (bytes > 0) std::memcpy(to, rest.data(), bytes);
    rest = rest.subspan(bytes);
  };
  message_.name.resize(head.name_bytes);
  take(message_.name.data(), head.name_bytes);
  message_.refs.resize(head.refs);
  take(message_.refs.data(), head.refs * sizeof(RefWire));
  std::vector<std::uint64_t> sizes(head.buffers);
  take(sizes.data(), sizes.size() * sizeof(std::uint64_t));
  std::uint64_t left = most_bytes_ - head.body_bytes;
  for (const std::uint64_t size : sizes) {
    if (size > left) refuse("its buffers are too large");
    left -= size;
  }
  message_.packed.body.resize(head.body_bytes);
  open_.emplace_back(message_.packed.body);
  for (const std::uint64_t size : sizes)
    open_.push_back(message_.packed.buffers.emplace_back(size).bytes());
}

}  // namespace hymn::rpc::detail
