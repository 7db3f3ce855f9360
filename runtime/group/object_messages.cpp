// The messages of hymn/objects.hpp: the first has the envelope, and as much of the value as there
// is room for; what is left comes in a second one.
#include <algorithm>
#include <array>

#include "runtime/group/object_call.hpp"

namespace hymn::detail {
namespace {

struct FirstMessage {
  ObjectEnvelope envelope{};
  std::array<std::byte, 4096 - sizeof(ObjectEnvelope)> begin;

  /// With so many bytes of the value.
  BufferView view(std::size_t bytes) {
    return {this, sizeof(ObjectEnvelope) + bytes, DataType::uint8};
  }
  /// How many bytes of the value the envelope says are in here.
  std::size_t bytes_here() const {
    if (envelope.outcome != ObjectEnvelope::Outcome::packed) return 0;
    return std::min<std::uint64_t>(envelope.bytes, begin.size());
  }
};

}  // namespace

void send_packed(const ProcessGroup& group, const PackedObjects& object, int destination, int tag,
                 const ObjectOptions& options) {
  const ObjectCall call(group, "send_object", options, __builtin_return_address(0));
  FirstMessage first{call.envelope_of(object), {}};
  const std::size_t here = first.bytes_here();
  std::copy_n(object.bytes.begin(), here, first.begin.begin());
  call.run(Request::send(first.view(here), destination, tag));
  if (!call.is_member()) return;
  call.require(first.envelope, group.rank(), object.error);
  const std::span<const std::byte> rest = std::span(object.bytes).subspan(here);
  if (rest.empty()) return;
  call.in_step([&] { call.run(Request::send(bytes_view(rest), destination, tag)); });
}

ReceivedObjects receive_packed(const ProcessGroup& group, int source, int tag,
                               const ObjectOptions& options) {
  const ObjectCall call(group, "recv_object", options, __builtin_return_address(0));
  FirstMessage first;
  RecvStatus status = call.run(Request::recv(first.view(first.begin.size()), source, tag));
  if (!call.is_member()) return {};
  const std::size_t here = first.bytes_here();
  if (status.count != sizeof(ObjectEnvelope) + here) first.envelope.mark = 0;
  call.require(first.envelope, status.source);
  const std::size_t count = first.envelope.bytes;
  if (here == count) call.require_room(count);
  return call.in_step([&]() -> ReceivedObjects {
    call.require_room(count);
    std::vector<std::byte> bytes(count);
    std::copy_n(first.begin.begin(), here, bytes.begin());
    const BufferView rest = writable_bytes_view(bytes).slice(here, count - here);
    if (rest.count > 0) call.run(Request::recv(rest, status.source, tag));
    status.count = count;
    return {{std::move(bytes), {count}}, call.context(), status};
  });
}

}  // namespace hymn::detail
