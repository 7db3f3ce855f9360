// Collectives and messages of values of any type and size: docs/objects.md. For numbers in arrays
// the calls of ProcessGroup are faster, which know their sizes and copy nothing.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "hymn/error.hpp"
#include "hymn/export.hpp"
#include "hymn/object_format.hpp"
#include "hymn/process_group.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

/// Options of one call.
struct ObjectOptions {
  Timeout timeout{};  ///< of each operation that the call is made of; unset: the group's
  /// A rank takes no more bytes than this in one call, all values together, so that nobody can make
  /// it allocate without bound. The same on all ranks.
  std::size_t max_bytes = std::size_t{1} << 30;
};

namespace detail {

/// Values as bytes, one after the other.
struct ObjectBytes {
  std::vector<std::byte> bytes;
  std::vector<std::size_t> counts;  ///< bytes of each value
};

/// What this rank gives. Others learn where it could not be packed.
struct PackedObjects : ObjectBytes {
  std::exception_ptr error;

  template <class T>
  void add(const T& value) {
    try {
      std::vector<std::byte> packed = pack_object(value);
      counts.push_back(packed.size());
      if (bytes.empty())
        bytes = std::move(packed);
      else
        bytes.insert(bytes.end(), packed.begin(), packed.end());
    } catch (...) {
      error = std::current_exception();
    }
  }
};

/// What has come, and for whose call.
struct ReceivedObjects : ObjectBytes {
  ErrorContext context;
  RecvStatus status;
};

template <class T>
PackedObjects packed(const T& value) {
  PackedObjects objects;
  objects.add(value);
  return objects;
}
/// Whether this rank is the root; false also where no member is.
HYMN_API bool is_root(const ProcessGroup& group, int root);

// Each makes two operations of the group: what all must know first, then the values. On a rank
// outside of the group they warn, and nothing has come.

/// Nothing comes to the root.
HYMN_API ReceivedObjects broadcast_objects(const ProcessGroup& group, PackedObjects objects,
                                           int root, const ObjectOptions& options);
HYMN_API ReceivedObjects all_gather_objects(const ProcessGroup& group, const PackedObjects& objects,
                                            const ObjectOptions& options);
HYMN_API ReceivedObjects gather_objects(const ProcessGroup& group, const PackedObjects& objects,
                                        int root, const ObjectOptions& options);
HYMN_API ReceivedObjects scatter_objects(const ProcessGroup& group, PackedObjects objects, int root,
                                         const ObjectOptions& options);
HYMN_API void send_packed(const ProcessGroup& group, const PackedObjects& object, int destination,
                          int tag, const ObjectOptions& options);
HYMN_API ReceivedObjects receive_packed(const ProcessGroup& group, int source, int tag,
                                        const ObjectOptions& options);

/// In a catch block: the error names whose value could not be read, and in which call.
[[noreturn]] HYMN_API void rethrow_unpacking(const ErrorContext& context, int source);

template <class T>
T unpacked(const ErrorContext& context, std::span<const std::byte> bytes, int source) {
  try {
    return unpack_object<T>(bytes);
  } catch (...) {
    rethrow_unpacking(context, source);
  }
}

/// One of each member; nothing where nothing has come.
template <class T>
std::vector<T> unpacked_all(const ReceivedObjects& received, const std::vector<int>& sources) {
  std::vector<T> values;
  std::span<const std::byte> left(received.bytes);
  for (std::size_t i = 0; i < received.counts.size(); ++i) {
    values.push_back(unpacked<T>(received.context, left.first(received.counts[i]), sources[i]));
    left = left.subspan(received.counts[i]);
  }
  return values;
}

}  // namespace detail

// All members of the group make the same call, with the same type; all ranks given are global
// ranks. Values are given by reference and left as they are; what is received replaces `value` when
// all has gone well. A rank that cannot pack its value throws why; all others then throw PeerError,
// nothing has been sent, and the group goes on. A value that cannot be read is the matter of that
// rank alone, and the group goes on, too. Errors otherwise as those of ProcessGroup's calls.
//
// UsageError: values that are larger than ObjectOptions::max_bytes, or of another type. PeerError:
// damaged bytes, or a rank that could not pack its value. ResourceError: no memory for what comes.
//
// Thread safety: as of ProcessGroup's calls. Each makes two calls of the group: threads that call
// at the same time must keep these together, or use groups of their own.

/// Everybody's `value` becomes the root's.
template <Object T>
HYMN_INLINE void broadcast_object(const ProcessGroup& group, T& value, int root,
                                  const ObjectOptions& options = {}) {
  detail::PackedObjects objects;
  if (detail::is_root(group, root)) objects.add(value);
  const detail::ReceivedObjects received =
      detail::broadcast_objects(group, std::move(objects), root, options);
  if (!received.bytes.empty()) value = detail::unpacked<T>(received.context, received.bytes, root);
}

/// The values of all members, in rank order, on all of them. Two all_gathers.
template <Object T>
HYMN_INLINE std::vector<T> all_gather_object(const ProcessGroup& group, const T& value,
                                             const ObjectOptions& options = {}) {
  return detail::unpacked_all<T>(detail::all_gather_objects(group, detail::packed(value), options),
                                 group.membership().ranks);
}

/// The values of all members, in rank order, on the root; nothing elsewhere.
template <Object T>
HYMN_INLINE std::vector<T> gather_object(const ProcessGroup& group, const T& value, int root,
                                         const ObjectOptions& options = {}) {
  return detail::unpacked_all<T>(
      detail::gather_objects(group, detail::packed(value), root, options),
      group.membership().ranks);
}

/// Group rank i's `value` becomes the root's values[i]. `values` count on the root alone: one for
/// each member; elsewhere they may be {}.
template <Object T>
HYMN_INLINE void scatter_object(const ProcessGroup& group,
                                std::type_identity_t<std::span<const T>> values, T& value, int root,
                                const ObjectOptions& options = {}) {
  detail::PackedObjects objects;
  if (detail::is_root(group, root))
    for (const T& each : values) objects.add(each);
  const detail::ReceivedObjects received =
      detail::scatter_objects(group, std::move(objects), root, options);
  if (!received.bytes.empty()) value = detail::unpacked<T>(received.context, received.bytes, root);
}

/// To be received by recv_object() alone. One message up to 4056 bytes of value, two above: where
/// the second fails the group is given up, for the receiver waits for it.
template <Object T>
HYMN_INLINE void send_object(const ProcessGroup& group, const T& value, int destination,
                             int tag = 0, const ObjectOptions& options = {}) {
  detail::send_packed(group, detail::packed(value), destination, tag, options);
}

/// `source` may be any_source. The status tells who has sent it; its count is the size in bytes.
template <Object T>
HYMN_INLINE RecvStatus recv_object(const ProcessGroup& group, T& value, int source, int tag = 0,
                                   const ObjectOptions& options = {}) {
  const detail::ReceivedObjects received = detail::receive_packed(group, source, tag, options);
  if (!received.bytes.empty())
    value = detail::unpacked<T>(received.context, received.bytes, received.status.source);
  return received.status;
}

}  // namespace hymn
