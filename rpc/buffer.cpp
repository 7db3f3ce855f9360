#include "hymn/rpc_buffer.hpp"

#include <algorithm>
#include <new>

namespace hymn::rpc {
namespace {

constexpr std::align_val_t buffer_alignment{64};
thread_local detail::Packed* current_packed = nullptr;

}  // namespace

Buffer::Buffer(std::size_t bytes) {
  if (bytes == 0) return;
  auto* const memory = static_cast<std::byte*>(::operator new(bytes, buffer_alignment));
  owner_ = std::shared_ptr<const void>(
      memory, [](void* given) { ::operator delete(given, buffer_alignment); });
  bytes_ = {memory, bytes};
}

Buffer Buffer::copy_of(std::span<const std::byte> bytes) {
  Buffer copy(bytes.size());
  std::copy(bytes.begin(), bytes.end(), copy.bytes().begin());
  return copy;
}

namespace detail {

PackScope::PackScope(Packed& packed) : before_(current_packed) { current_packed = &packed; }
PackScope::~PackScope() { current_packed = before_; }
Packed* PackScope::current() { return current_packed; }

}  // namespace detail
}  // namespace hymn::rpc

namespace hymn {

// A byte tells whether the bytes follow, or the number of a buffer beside them.
void ObjectFormat<rpc::Buffer>::write(ObjectWriter& out, const rpc::Buffer& buffer) {
  rpc::detail::Packed* const packed = rpc::detail::PackScope::current();
  const bool is_apart = packed != nullptr && buffer.size() >= rpc::Buffer::least_bytes;
  out.put(is_apart);
  if (is_apart) {
    out.put(std::uint64_t{packed->buffers.size()});
    packed->buffers.push_back(buffer);
  } else {
    out.put_count(buffer.size());
    out.put_bytes(buffer.bytes());
  }
}

void ObjectFormat<rpc::Buffer>::read(ObjectReader& in, rpc::Buffer& buffer) {
  bool is_apart = false;
  in.get(is_apart);
  if (!is_apart) {
    buffer = rpc::Buffer(in.get_count());
    in.get_bytes(buffer.bytes());
    return;
  }
  rpc::detail::Packed* const packed = rpc::detail::PackScope::current();
  std::uint64_t number = 0;
  in.get(number);
  if (packed == nullptr || number >= packed->buffers.size())
    in.fail("a buffer that it names is not there");
  buffer = packed->buffers[number];
}

}  // namespace hymn
