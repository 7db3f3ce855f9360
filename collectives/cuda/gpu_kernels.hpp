// The kernels of one GPU, loaded when the first of them is wanted.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "collectives/cuda/kernel_thread.hpp"
#include "gpu/gpu_device.hpp"

namespace hymn::cuda {

/// Thread-safe.
class GpuKernels {
 public:
  explicit GpuKernels(std::shared_ptr<GpuDevice> gpu) : gpu_(std::move(gpu)) {}
  ~GpuKernels();
  GpuKernels(const GpuKernels&) = delete;
  GpuKernels& operator=(const GpuKernels&) = delete;

  GpuDevice& gpu() const { return *gpu_; }

  /// Enqueues a kernel of kernels.cu, whose parameters must have just these types. Throws
  /// UnsupportedError where hymn was built without nvcc, BackendError as the driver's calls fail.
  template <class... Arguments>
  void launch(const char* name, unsigned blocks, cuda_api::Stream stream, Arguments... arguments) {
    std::array<void*, sizeof...(Arguments)> pointers{&arguments...};
    launch_with(name, blocks, stream, pointers.data());
  }

 private:
  void launch_with(const char* name, unsigned blocks, cuda_api::Stream stream, void** arguments);
  cuda_api::Kernel find(const char* name);

  const std::shared_ptr<GpuDevice> gpu_;
  std::mutex mutex_;  // guards what follows
  cuda_api::Module module_ = nullptr;
  std::map<std::string_view, cuda_api::Kernel> kernels_;  // names are literals
};

}  // namespace hymn::cuda
