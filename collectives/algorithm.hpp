// A candidate way to carry out requests of one group.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/operation.hpp"
#include "p2p/verdict.hpp"

namespace hymn {

/// A group as an algorithm sees it.
struct GroupShape {
  int rank = 0;
  int size = 1;
  Reproducibility reproducibility = Reproducibility::ranks;  ///< that the group asks for
};

/// One algorithm, made for one group and holding what it needs of that group (a communicator, a
/// board). It answers the same for the same kind of request: the selector asks once for each kind,
/// and the answer must come out the same on every member.
class Algorithm {
 public:
  Algorithm() = default;
  Algorithm(const Algorithm&) = delete;
  Algorithm& operator=(const Algorithm&) = delete;
  virtual ~Algorithm() = default;

  /// "<collective>_<method>", as its file is named: "all_reduce_mpi".
  virtual std::string_view name() const = 0;
  /// The mechanism, as HYMN_PATH names it: "mpi".
  virtual std::string_view path() const = 0;
  virtual bool serves(OpType type) const = 0;
  /// The one kind of memory that it reads and writes: all that the host can reach is `host`, be it
  /// pinned or managed. Then `device` means that its buffers are in the memory of a GPU.
  virtual bool takes(MemoryKind memory) const { return memory != MemoryKind::device; }
  /// Asked only for types that it serves, and memory that it takes. May look at anything that all
  /// members see alike.
  virtual Verdict can_run(const Request& request) const = 0;
  /// How far it reproduces the bits of a result that depends on the order of the steps, when made
  /// for a group that asks for that much. Asked only for requests that it can run.
  virtual Reproducibility promises(const Request&) const { return Reproducibility::ranks; }
  /// Builds the operation in `storage`. The request behind `call` has been validated.
  virtual Operation& prepare(OperationStorage& storage, const Call& call) = 0;

  /// The number under which the recorder of this process knows its path and name; 0: none.
  std::uint16_t recorded_as() const { return recorded_as_; }
  void set_recorded_as(std::uint16_t number) { recorded_as_ = number; }

  /// How many operations of that kind it has been given. Callers order the collectives of a group,
  /// so one of them counts at a time; but not the messages. Any thread may ask.
  std::uint64_t uses(OpType type) const {
    return uses_[static_cast<std::size_t>(type)].load(std::memory_order_relaxed);
  }
  void count_use(OpType type) {
    std::atomic<std::uint64_t>& uses = uses_[static_cast<std::size_t>(type)];
    if (!is_collective(type))
      uses.fetch_add(1, std::memory_order_relaxed);
    else
      uses.store(uses.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

 private:
  std::array<std::atomic<std::uint64_t>, op_type_count> uses_{};
  std::uint16_t recorded_as_ = 0;
};

using Algorithms = std::vector<std::unique_ptr<Algorithm>>;

/// Chooses among a group's algorithms who carries a request. Throws UnsupportedError where nobody
/// does.
using AlgorithmPicker = std::function<Algorithm&(const Request&)>;

}  // namespace hymn
