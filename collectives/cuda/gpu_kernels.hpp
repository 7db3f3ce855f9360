// The kernels of one GPU, loaded when the first of them is wanted.
#pragma once

#include <array>
#include <memory>
#include <mutex>

#include "collectives/cuda/kernel_thread.hpp"
#include "gpu/gpu_device.hpp"

namespace hymn::cuda {

class KernelModule;

/// Thread-safe. All of a process that use the same GPU share what was loaded; the last one unloads
/// it.
class GpuKernels {
 public:
  explicit GpuKernels(std::shared_ptr<GpuDevice> gpu);
  ~GpuKernels();
  GpuKernels(const GpuKernels&) = delete;
  GpuKernels& operator=(const GpuKernels&) = delete;

  GpuDevice& gpu() const { return *gpu_; }

  /// Loads them, where they are not yet. Throws as launch().
  void load() { module(); }
  /// Enqueues a kernel of kernels.cu, whose parameters must have just these types. `name` must be a
  /// literal. Throws UnsupportedError where hymn was built without nvcc, BackendError as the
  /// driver's calls fail.
  template <class... Arguments>
  void launch(const char* name, unsigned blocks, cuda_api::Stream stream, Arguments... arguments) {
    std::array<void*, sizeof...(Arguments)> pointers{&arguments...};
    launch_with(name, blocks, stream, pointers.data());
  }

 private:
  void launch_with(const char* name, unsigned blocks, cuda_api::Stream stream, void** arguments);
  KernelModule& module();

  const std::shared_ptr<GpuDevice> gpu_;
  std::mutex mutex_;                      // guards what follows
  std::shared_ptr<KernelModule> module_;  ///< null: none is wanted yet
};

}  // namespace hymn::cuda
