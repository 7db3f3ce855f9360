// Requests of the program that are in flight, and what is recorded of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>

#include "preload/mpi.hpp"

namespace hymn::preload {

struct WatchedGroup;

/// A table of fixed size: a request that finds no place in it is not followed. Thread-safe where
/// threads may overlap.
class Requests {
 public:
  explicit Requests(bool may_overlap) : may_overlap_(may_overlap) {}

  struct Open {
    MPI_Request request{};
    std::uint64_t record = 0;
    /// Of a collective, which may outlive its communicator; null: a message.
    std::shared_ptr<WatchedGroup> group{};
    /// It may be started again: its handle stays when it has ended.
    bool is_persistent = false;
  };
  struct Added {
    bool is_followed = false;  ///< false: there is no place
    /// What had this handle. It has ended, else MPI had not given it away again.
    std::optional<Open> ended{};
  };

  Added add(Open open);
  std::optional<Open> find(MPI_Request request) const;
  /// How many are in flight.
  std::size_t count() const {
    const Lock lock(busy_, may_overlap_);
    return count_;
  }
  /// False: the handle is another's by now, or nobody's.
  bool remove(MPI_Request request, std::uint64_t record);

 private:
  static constexpr std::size_t places = 4096;
  static constexpr std::size_t looks = 16;

  /// Nothing where threads do not overlap.
  class Lock {
   public:
    Lock(std::atomic_flag& flag, bool may_overlap) : flag_(may_overlap ? &flag : nullptr) {
      while (flag_ != nullptr && flag_->test_and_set(std::memory_order_acquire)) {
      }
    }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    ~Lock() {
      if (flag_ != nullptr) flag_->clear(std::memory_order_release);
    }

   private:
    std::atomic_flag* flag_;
  };

  /// Handles are pointers in one MPI, and numbers in another.
  template <class Handle>
  static std::size_t place_of(Handle request) {
    std::uint64_t key = 0;
    if constexpr (std::is_pointer_v<Handle>)
      key = reinterpret_cast<std::uintptr_t>(request);
    else
      key = static_cast<std::uint64_t>(request);
    return static_cast<std::size_t>((key * 0x9e3779b97f4a7c15u) >> 40);
  }
  Open* slot_of(MPI_Request request) const;
  Open* free_slot_of(MPI_Request request) const;

  const bool may_overlap_;
  mutable std::atomic_flag busy_{};
  std::size_t count_ = 0;
  mutable std::array<Open, places> open_{};
};

}  // namespace hymn::preload
