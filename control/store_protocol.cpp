#include "control/store_protocol.hpp"

#include "hymn/store.hpp"

namespace hymn {
namespace {

[[noreturn]] void refuse_message(const char* what) {
  throw NetworkError(std::string("a message of a store has ") + what,
                     {.remedy = "check that all processes run the same version of hymn"});
}

template <class Enum>
Enum read_enum(Unpacker& from, Enum last) {
  const std::uint64_t value = from.number();
  if (value > static_cast<std::uint64_t>(last)) refuse_message("an unknown kind");
  return static_cast<Enum>(value);
}

void pack_texts(Packer& to, const std::vector<std::string>& texts) {
  to.number(texts.size());
  for (const std::string& text : texts) to.text(text);
}

std::vector<std::string> read_texts(Unpacker& from) {
  std::vector<std::string> texts;
  for (std::size_t count = from.count(); count > 0; --count) {
    texts.push_back(from.text());
    if (texts.back().size() > Store::most_key_bytes) refuse_message("a key that is too long");
  }
  return texts;
}

Bytes read_value(Unpacker& from) {
  Bytes value = from.bytes();
  if (value.size() > Store::most_value_bytes) refuse_message("a value that is too large");
  return value;
}

void expect_end(const Unpacker& from) {
  if (!from.empty()) refuse_message("extra bytes at its end");
}

}  // namespace

Bytes pack(const StoreRequest& request) {
  Packer to;
  to.number(request.id).number(static_cast<std::uint64_t>(request.call));
  pack_texts(to, request.keys);
  return to.bytes(request.value)
      .bytes(request.expected)
      .number(static_cast<std::uint64_t>(request.delta))
      .number(static_cast<std::uint64_t>(request.wait_ns))
      .packed();
}

StoreRequest unpack_request(std::span<const std::byte> bytes) {
  Unpacker from(bytes);
  StoreRequest request;
  request.id = from.number();
  request.call = read_enum(from, StoreCall::num_keys);
  request.keys = read_texts(from);
  request.value = read_value(from);
  request.expected = read_value(from);
  request.delta = static_cast<std::int64_t>(from.number());
  request.wait_ns = static_cast<std::int64_t>(from.number());
  expect_end(from);
  if (!has_right_keys(request)) refuse_message("a wrong number of keys");
  return request;
}

Bytes pack(const StoreReply& reply) {
  Packer to;
  to.number(reply.id).number(static_cast<std::uint64_t>(reply.outcome));
  to.number(static_cast<std::uint64_t>(reply.number)).bytes(reply.value);
  pack_texts(to, reply.texts);
  return to.packed();
}

StoreReply unpack_reply(std::span<const std::byte> bytes) {
  Unpacker from(bytes);
  StoreReply reply;
  reply.id = from.number();
  reply.outcome = read_enum(from, StoreOutcome::error);
  reply.number = static_cast<std::int64_t>(from.number());
  reply.value = read_value(from);
  reply.texts = read_texts(from);
  expect_end(from);
  if (reply.outcome == StoreOutcome::error && reply.texts.size() != 2)
    refuse_message("an error without its texts");
  return reply;
}

std::size_t most_store_message_bytes() {
  constexpr std::size_t all_else = std::size_t{1} << 20;
  return 2 * Store::most_value_bytes + Store::most_key_bytes + all_else;
}

bool has_right_keys(const StoreRequest& request) {
  switch (request.call) {
    case StoreCall::num_keys:
      return request.keys.empty();
    case StoreCall::check:
    case StoreCall::wait:
      return true;
    case StoreCall::set:
    case StoreCall::get:
    case StoreCall::add:
    case StoreCall::compare_set:
    case StoreCall::erase:
      break;
  }
  return request.keys.size() == 1;
}

}  // namespace hymn
