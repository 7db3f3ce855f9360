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

#include "collectives/algorithm_model.hpp"
#include "collectives/operation.hpp"
#include "hymn/error.hpp"
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
///
/// What it is called, what it serves and what that costs is its model's to say, which is known
/// without any group. There is none without a model, nor a model without a cost.
class Algorithm {
 public:
  explicit Algorithm(const AlgorithmModel& model) : Algorithm(model, model.serves) {}
  /// Where several share a model: `serves` is this one's part of what that serves.
  Algorithm(const AlgorithmModel& model, OpTypes serves) : model_(&model), serves_(serves) {}
  Algorithm(const Algorithm&) = delete;
  Algorithm& operator=(const Algorithm&) = delete;
  virtual ~Algorithm() = default;

  const AlgorithmModel& model() const { return *model_; }
  std::string_view path() const { return model_->path; }
  OpTypes serves() const { return serves_; }
  bool serves(OpType type) const { return serves_.contains(type); }
  /// The one kind of memory that it reads and writes: all that the host can reach is `host`, be it
  /// pinned or managed. Then `device` means that its buffers are in the memory of a GPU.
  bool takes(MemoryKind memory) const {
    return (memory == MemoryKind::device) == (model_->memory == MemoryKind::device);
  }
  /// Asked only for types that it serves, and memory that it takes. May look at anything that all
  /// members see alike.
  virtual Verdict can_run(const Request& request) const = 0;
  /// How far it reproduces the bits of a result that depends on the order of the steps, when made
  /// for a group that asks for that much. Asked only for requests that it can run.
  virtual Reproducibility promises(const Request&) const { return Reproducibility::ranks; }
  /// Builds the operation in `storage`. The request behind `call` has been validated. What the
  /// buffers hold is not looked at before start(): of bundles it comes just before that.
  virtual Operation& prepare(OperationStorage& storage, const Call& call) = 0;

  /// The number under which the recorder of this process knows its path and method; 0: none.
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
  const AlgorithmModel* model_;
  OpTypes serves_;
  std::array<std::atomic<std::uint64_t>, op_type_count> uses_{};
  std::uint16_t recorded_as_ = 0;
};

/// Stands in the list for what another would do, and says why it cannot.
class AbsentAlgorithm final : public Algorithm {
 public:
  AbsentAlgorithm(const AlgorithmModel& model, OpTypes serves, std::string reason)
      : Algorithm(model, serves), reason_(std::move(reason)) {}
  Verdict can_run(const Request&) const override { return Verdict::no(reason_); }
  Operation& prepare(OperationStorage&, const Call&) override {
    throw Error(ErrorKind::internal, "it was chosen though it cannot run: " + reason_);
  }

 private:
  std::string reason_;
};

using Algorithms = std::vector<std::unique_ptr<Algorithm>>;

/// Chooses among a group's algorithms who carries a request. Throws UnsupportedError where nobody
/// does.
using AlgorithmPicker = std::function<Algorithm&(const Request&)>;

}  // namespace hymn
