// What a GradientReducer does in an iteration.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "training/bucket_queue.hpp"
#include "training/ready_marks.hpp"
#include "training/sparse_gradients.hpp"

namespace hymn::training::detail {

class ReducerState {
 public:
  /// `self` is what joins know the reducer by.
  ReducerState(Joinable& self, ProcessGroup group, std::vector<Parameter> parameters,
               ReducerOptions options);
  ReducerState(const ReducerState&) = delete;
  ReducerState& operator=(const ReducerState&) = delete;
  ~ReducerState();

  const ProcessGroup& group() const { return group_; }
  const BucketQueue& buckets() const { return *buckets_; }
  BufferView gradient(std::size_t parameter) const;
  bool is_unused(std::size_t parameter) const;
  bool is_complete() const { return runs_ && marks_.is_complete(); }
  std::shared_ptr<void> gradient_owner(std::size_t parameter) const;
  const SparseTensor& sparse_gradient(std::size_t parameter) const;
  void hold_sync();
  void release_sync() noexcept { --holds_; }

  void prepare(std::optional<std::span<const std::size_t>> used);
  void ready(std::size_t parameter);
  void ready(std::size_t parameter, const SparseView& gradient);
  void set_sparse_metadata(std::size_t parameter, std::span<const std::int64_t> indices);
  void finish();
  /// The collectives of an iteration, for a rank that has run out of input.
  void shadow();
  /// The values of all parameters, and the buffers, become those of this rank.
  void broadcast_model(int root);

 private:
  void broadcast_buffers();
  /// These values of all, and the buffers, each on its place.
  void broadcast(bool with_parameters, int root);
  const GradientPlace& place_of(std::size_t parameter) const {
    return *(*places_)[model_->gpu_of(parameter)];
  }
  void require_parameter(std::size_t parameter, const char* call) const;
  void require_idle(const char* what, const char* call) const;
  void require_kind(std::size_t parameter, bool sparse, const char* call) const;
  void note_ready(std::size_t parameter);
  ErrorContext context(const char* call, const char* remedy) const;
  /// Whether this iteration reduces, which ranks of a join ask each other.
  bool is_synced(bool has_input) const;
  void require_may_begin(std::optional<std::span<const std::size_t>> used) const;
  void begin(std::optional<std::span<const std::size_t>> used);
  void begin_reduction();
  /// As the first rank's gradients were ready, once.
  void rebuild_buckets();
  std::unique_ptr<BucketQueue> make_buckets(std::span<const std::size_t> order) const;
  /// Gradients go to where they are from now on.
  void leave_old_buckets();
  void put_gradient(std::size_t parameter);
  /// What this rank, which has run out, has gathered before inside no_sync(); zeros otherwise.
  void put_what_is_left(std::size_t parameter);
  void require_all_ready();
  void reduce_the_rest();
  /// Starts the union of what all ranks have used, where it is not known.
  void ask_who_is_used(std::vector<std::uint8_t> mine);
  void put_back(std::span<const BufferView> results);

  /// What the others wait for does not come where it fails: the group is given up.
  template <class Do>
  void give_up_if_fails(Do reduce);

  Joinable& self_;
  ProcessGroup group_;
  ReducerOptions options_;
  std::shared_ptr<const Model> model_;
  std::shared_ptr<const GradientPlaces> places_;
  const std::vector<std::size_t> backward_order_;
  ReadyMarks marks_;
  std::shared_ptr<const CommHook> hook_;
  SparseGradients sparse_;
  std::unique_ptr<BucketQueue> buckets_;
  std::unique_ptr<BucketQueue> old_buckets_;  ///< in which the framework may still write
  int holds_ = 0;                             ///< while there are any, nothing is reduced
  bool runs_ = false;                         ///< between prepare() and finish()
  bool reduces_ = false;                      ///< in this iteration
  bool is_rebuilt_ = false;
  std::uint64_t reductions_ = 0;
  std::vector<std::size_t> first_order_;  ///< in which gradients were ready in the first of them
  std::shared_ptr<std::vector<std::uint8_t>> used_;  ///< by any rank
};

}  // namespace hymn::training::detail
