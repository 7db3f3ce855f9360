// What an operation is of, when it carries out a request, and where it lives.
#pragma once

#include <cstddef>
#include <new>
#include <utility>

#include "hymn/error.hpp"
#include "p2p/operation.hpp"

namespace hymn {

/// Thrown where an operation needs what belongs to another group, which was aborted: no member of
/// its own group has told anything, nor will.
class ParentAborted final : public AbortedError {
 public:
  using AbortedError::AbortedError;
};

/// What one call is, beyond its request. `request` must outlive the operation.
struct Call {
  const Request* request = nullptr;
  int peer = -1;               ///< the request's peer as a *group* rank (or any_source)
  std::uint64_t sequence = 0;  ///< counts collectives, or sends and receives, from 1
  /// Of a collective: counts what the group's operations have sent messages for, from 1. It runs
  /// ahead of `sequence` where calls that were made as one are carried out in several parts.
  std::uint64_t order = 0;
  /// As how many calls it was given that were made as one; 0: it stands alone.
  std::size_t coalesced = 0;
  bool in_given_blocks = false;  ///< of these some are cut into blocks of given sizes
  bool in_own_bundles = false;   ///< of sizes that the call has given
  /// Of a part of such calls: what all of them ask for, to be mixed into its label.
  std::uint64_t whole_label = 0;
  /// Of parts of such calls: how many of them, from this one on, the same algorithm carries one
  /// behind the other. All members give the same.
  std::size_t together = 1;
  const void* coalesced_in = nullptr;  ///< the same for all of these; null: it is no part
};

/// Room for one operation without touching the heap.
class OperationStorage {
 public:
  static constexpr std::size_t capacity = 448;

  OperationStorage() = default;
  OperationStorage(const OperationStorage&) = delete;
  OperationStorage& operator=(const OperationStorage&) = delete;
  ~OperationStorage() { clear(); }

  template <class Op, class... Args>
  Op& emplace(Args&&... args) {
    static_assert(sizeof(Op) <= capacity && alignof(Op) <= alignof(std::max_align_t));
    clear();
    Op* made = ::new (static_cast<void*>(bytes_)) Op(std::forward<Args>(args)...);
    operation_ = made;
    return *made;
  }
  void clear() {
    if (operation_ != nullptr) std::exchange(operation_, nullptr)->~Operation();
  }
  Operation* get() const { return operation_; }

 private:
  Operation* operation_ = nullptr;
  alignas(std::max_align_t) std::byte bytes_[capacity];
};

}  // namespace hymn
