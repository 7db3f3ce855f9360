// The GPUs that one rank works on: its own, and others that its groups name.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "collectives/cuda/device_nan.hpp"
#include "collectives/staged/staged.hpp"
#include "gpu/gpu_functions.hpp"
#include "topology/placement.hpp"

namespace hymn {

/// One GPU, and what works there.
struct RankGpu {
  RankGpu(const cuda_api::Functions& cuda, int index, int gpu_place, std::string gpu_name)
      : name(std::move(gpu_name)),
        place(gpu_place),
        gpu(std::make_shared<GpuDevice>(cuda, index)),
        staging(std::make_shared<StagingArea>(gpu)),
        nan(std::make_shared<cuda::DeviceNan>(gpu)),
        casts(std::make_shared<cuda::GpuKernels>(gpu)) {}

  std::string name;  ///< the same exactly for ranks that share it
  int place = -1;    ///< index in Machine::gpus
  std::shared_ptr<GpuDevice> gpu;
  std::shared_ptr<StagingArea> staging;
  std::shared_ptr<cuda::DeviceNan> nan;
  std::shared_ptr<cuda::GpuKernels> casts;  ///< for reductions in float32
};

/// Thread-safe once ranks are placed. What is made here stays to the end of the world: contexts of
/// GPUs are dear.
class RankGpus {
 public:
  /// `functions` null: there are no GPUs.
  explicit RankGpus(const GpuFunctions* functions) : functions_(functions) {}

  void placed(const JobMap& job);
  /// The rank's own; null: it has none.
  const RankGpu* own() const { return own_; }
  /// The one that the driver knows by this number in this process. Throws UsageError where it is
  /// not there.
  const RankGpu& named(int index);

  /// Of this rank, in the world's layout.
  int host() const { return host_; }
  /// What is there on a host like that.
  const Machine& machine_of(const HostSummary& host) const {
    return *machines_[static_cast<std::size_t>(host.machine)];
  }

 private:
  const RankGpu& keep(int index, int place);

  const GpuFunctions* functions_;
  int rank_ = -1;
  int host_ = 0;
  std::vector<std::shared_ptr<const Machine>> machines_;  // by kind
  std::shared_ptr<const Machine> here_;
  const RankGpu* own_ = nullptr;
  std::mutex mutex_;                 // guards what follows
  std::map<int, RankGpu> by_index_;  // they stay where they are
};

}  // namespace hymn
