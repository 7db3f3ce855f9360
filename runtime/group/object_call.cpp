#include "runtime/group/object_call.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error_context.hpp"

namespace hymn::detail {

using Outcome = ObjectEnvelope::Outcome;

namespace {

constexpr const char* remedy_of_room =
    "send less at a time, or give a larger ObjectOptions::max_bytes on all ranks";

}  // namespace

ObjectEnvelope ObjectCall::envelope_of(const PackedObjects& objects, std::size_t i) const {
  ObjectEnvelope envelope{.max_bytes = options_.max_bytes};
  if (objects.error != nullptr) {
    envelope.outcome = Outcome::failed;
    return envelope;
  }
  envelope.bytes = objects.counts.at(i);
  if (envelope.bytes > options_.max_bytes) envelope.outcome = Outcome::too_large;
  return envelope;
}

std::vector<ObjectEnvelope> ObjectCall::all_envelopes(const PackedObjects& objects) const {
  const std::array mine{envelope_of(objects)};
  std::vector<ObjectEnvelope> all(size());
  run(Request::all_gather(bytes_view(mine), OutputBlocks::equal(writable_bytes_view(all))));
  if (!is_member()) all.clear();
  return all;
}

void ObjectCall::require_root(int root) const {
  try {
    state().members().peer_of(Request::gather({}, {}, root));
  } catch (...) {
    rethrow_with(context());
  }
}

void ObjectCall::require(const ObjectEnvelope& envelope, int source,
                         const std::exception_ptr& own_error) const {
  if (own_error != nullptr) std::rethrow_exception(with_context(own_error, context()));
  if (envelope.mark == ObjectEnvelope::right_mark) {
    switch (envelope.outcome) {
      case Outcome::packed:
        if (envelope.bytes >= object_header_bytes) return;
        break;
      case Outcome::too_large:
        throw UsageError(fmt::format("rank {} was to send {} bytes, more than its own limit of {}",
                                     source, envelope.bytes, envelope.max_bytes),
                         context(remedy_of_room));
      case Outcome::failed:
        throw PeerError(
            fmt::format("rank {} could not pack what it was to send; nothing was sent", source),
            context("see the error of that rank"));
    }
  }
  throw PeerError(fmt::format("what rank {} has sent does not belong to this call", source),
                  context("make the same calls, in the same order, on all ranks of the group"));
}

std::vector<std::size_t> ObjectCall::require_all(std::span<const ObjectEnvelope> envelopes,
                                                 const std::exception_ptr& own_error) const {
  std::vector<std::size_t> counts;
  std::uint64_t sum = 0;
  std::uint64_t max_bytes = options_.max_bytes;
  for (std::size_t i = 0; i < envelopes.size(); ++i) {
    const ObjectEnvelope& envelope = envelopes[i];
    require(envelope, state().members().ranks()[i], own_error);
    max_bytes = std::min(max_bytes, envelope.max_bytes);
    sum += std::min(envelope.bytes, UINT64_MAX - sum);
    counts.push_back(envelope.bytes);
  }
  require_room(sum, max_bytes);
  return counts;
}

void ObjectCall::require_room(std::uint64_t bytes, std::uint64_t max_bytes) const {
  max_bytes = std::min<std::uint64_t>(max_bytes, PTRDIFF_MAX);  // what memory can be asked for
  if (bytes <= max_bytes) return;
  throw UsageError(
      fmt::format("{} bytes would come to one rank in one call, more than the limit of {}", bytes,
                  max_bytes),
      context(remedy_of_room));
}

}  // namespace hymn::detail
