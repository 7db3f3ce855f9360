// Where a model's gradients lie, memory of the host and GPUs, and the groups whose ranks average
// what is there.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hymn/process_group.hpp"
#include "training/gradient_gpu.hpp"

namespace hymn::training::detail {

/// One of them: what is there is allocated, cleared, copied and averaged by its own means.
class GradientPlace {
 public:
  /// `gpu`: null: the host.
  GradientPlace(ProcessGroup group, std::shared_ptr<GradientGpu> gpu)
      : group_(std::move(group)), gpu_(std::move(gpu)) {}

  const ProcessGroup& group() const { return group_; }
  MemoryKind kind() const { return gpu_ ? MemoryKind::device : MemoryKind::host; }

  /// Zeros; the owner of what it points to.
  std::shared_ptr<void> allocate(std::size_t bytes) const;
  void copy(const BufferView& from, const BufferView& to) const;
  void clear(const BufferView& view) const;
  /// What is there in memory of the host, for a look; it may be the same memory.
  std::shared_ptr<const void> read(const BufferView& view) const;

  /// As those of GradientGpu; on the host they do nothing.
  void touch() const {
    if (gpu_) gpu_->touch();
  }
  /// For CallOptions::stream.
  void* averages() const { return gpu_ ? gpu_->averages() : nullptr; }
  void hand_over() const {
    if (gpu_) gpu_->hand_over();
  }
  void settle() const {
    if (gpu_) gpu_->settle();
  }
  /// The values of all become those of the root, a global rank. On a GPU the host does not wait.
  void broadcast(std::span<const BufferView> values, std::size_t bytes_at_a_time, int root) const;

 private:
  ProcessGroup group_;
  std::shared_ptr<GradientGpu> gpu_;
};

class GradientPlaces {
 public:
  /// `gpus`: as the driver numbers them here; all members call it, with as many. Groups of the
  /// same ranks are made for those on which `group` does not work on all of them. Throws
  /// UnsupportedError, and what making groups does.
  GradientPlaces(const ProcessGroup& group, std::span<const int> gpus, const StreamOf& stream_of);

  const ProcessGroup& group() const { return host_->group(); }
  /// Of the k-th of the GPUs; -1: of the host.
  const std::shared_ptr<const GradientPlace>& operator[](int k) const {
    return k < 0 ? host_ : gpus_[static_cast<std::size_t>(k)];
  }
  int gpus() const { return static_cast<int>(gpus_.size()); }
  void hand_over() const {
    for (const auto& each : gpus_) each->hand_over();
  }
  void settle() const {
    for (const auto& each : gpus_) each->settle();
  }
  /// Gives all groups up.
  void abort(const std::string& reason) const;
  /// Ends the groups that were made here.
  void end() const;

 private:
  void add(int gpu, bool is_of_group, const StreamOf& stream_of);

  std::shared_ptr<const GradientPlace> host_;
  std::vector<std::shared_ptr<const GradientPlace>> gpus_;
  std::vector<ProcessGroup> own_;  ///< groups that were made here
};

}  // namespace hymn::training::detail
