// The collectives of hymn/objects.hpp: each is an operation by which all learn what comes, and one
// for the values.
#include <fmt/format.h>

#include <numeric>

#include "base/error_context.hpp"
#include "runtime/group/object_call.hpp"

namespace hymn::detail {
namespace {

std::size_t sum_of(const std::vector<std::size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

/// What has come of a single value.
ReceivedObjects received_one(std::vector<std::byte> bytes, const ObjectCall& call,
                             RecvStatus status = {}) {
  const std::size_t count = bytes.size();
  return {{std::move(bytes), {count}}, call.context(), status};
}

}  // namespace

bool is_root(const ProcessGroup& group, int root) {
  const GroupMembers& members = need(group).members();
  return members.is_member() && members.find_rank(root) == members.shape().rank;
}

void rethrow_unpacking(const ErrorContext& context, int source) {
  ErrorContext full = context;
  full.operation += fmt::format(", the value of rank {}", source);
  rethrow_with(full);
}

ReceivedObjects broadcast_objects(const ProcessGroup& group, PackedObjects objects, int root,
                                  const ObjectOptions& options) {
  const ObjectCall call(group, "broadcast_object", options, __builtin_return_address(0));
  std::array<ObjectEnvelope, 1> envelope;
  if (is_root(group, root)) envelope[0] = call.envelope_of(objects);
  call.run(Request::broadcast(writable_bytes_view(envelope), root));
  if (!call.is_member()) return {};
  call.require(envelope[0], root, objects.error);
  return call.in_step([&]() -> ReceivedObjects {
    call.require_room(envelope[0].bytes);
    objects.bytes.resize(envelope[0].bytes);
    call.run(Request::broadcast(writable_bytes_view(objects.bytes), root));
    if (is_root(group, root)) return {};
    return received_one(std::move(objects.bytes), call);
  });
}

ReceivedObjects all_gather_objects(const ProcessGroup& group, const PackedObjects& objects,
                                   const ObjectOptions& options) {
  const ObjectCall call(group, "all_gather_object", options, __builtin_return_address(0));
  const std::vector<ObjectEnvelope> envelopes = call.all_envelopes(objects);
  const std::vector<std::size_t> counts = call.require_all(envelopes, objects.error);
  if (!call.is_member()) return {};
  return call.in_step([&]() -> ReceivedObjects {
    std::vector<std::byte> bytes(sum_of(counts));
    call.run(Request::all_gather(bytes_view(objects.bytes),
                                 OutputBlocks::counted(writable_bytes_view(bytes), counts)));
    return {{std::move(bytes), counts}, call.context(), {}};
  });
}

ReceivedObjects gather_objects(const ProcessGroup& group, const PackedObjects& objects, int root,
                               const ObjectOptions& options) {
  const ObjectCall call(group, "gather_object", options, __builtin_return_address(0));
  if (call.is_member()) call.require_root(root);
  const std::vector<ObjectEnvelope> envelopes = call.all_envelopes(objects);
  const std::vector<std::size_t> counts = call.require_all(envelopes, objects.error);
  if (!call.is_member()) return {};
  return call.in_step([&]() -> ReceivedObjects {
    std::vector<std::byte> bytes(is_root(group, root) ? sum_of(counts) : 0);
    call.run(Request::gather(bytes_view(objects.bytes),
                             OutputBlocks::counted(writable_bytes_view(bytes), counts), root));
    if (!is_root(group, root)) return {};
    return {{std::move(bytes), counts}, call.context(), {}};
  });
}

ReceivedObjects scatter_objects(const ProcessGroup& group, PackedObjects objects, int root,
                                const ObjectOptions& options) {
  const ObjectCall call(group, "scatter_object", options, __builtin_return_address(0));
  std::vector<ObjectEnvelope> envelopes(call.size());
  if (is_root(group, root)) {
    if (objects.error == nullptr && objects.counts.size() != call.size())
      objects.error = std::make_exception_ptr(
          UsageError(fmt::format("{} values for {} ranks", objects.counts.size(), call.size()),
                     {.remedy = "give one for each rank of the group, on the root"}));
    for (std::size_t i = 0; i < envelopes.size(); ++i) envelopes[i] = call.envelope_of(objects, i);
  }
  call.run(Request::broadcast(writable_bytes_view(envelopes), root));
  if (!call.is_member()) return {};
  std::vector<std::size_t> counts;
  for (const ObjectEnvelope& envelope : envelopes) {
    call.require(envelope, root, objects.error);
    counts.push_back(envelope.bytes);
  }
  return call.in_step([&] {
    const std::size_t mine = counts[static_cast<std::size_t>(group.rank())];
    call.require_room(mine);
    std::vector<std::byte> bytes(mine);
    call.run(Request::scatter(InputBlocks::counted(bytes_view(objects.bytes), counts),
                              writable_bytes_view(bytes), root));
    return received_one(std::move(bytes), call);
  });
}

}  // namespace hymn::detail
