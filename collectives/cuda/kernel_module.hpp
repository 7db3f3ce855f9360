// The image of all kernels, as the driver has loaded it for one GPU.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "gpu/gpu_device.hpp"

namespace hymn::cuda {

/// Thread-safe.
class KernelModule {
 public:
  /// That of the GPU's context, which all in this process share while one of them holds it. Throws
  /// UnsupportedError where hymn was built without nvcc, BackendError as the driver's calls fail.
  static std::shared_ptr<KernelModule> of(const std::shared_ptr<GpuDevice>& gpu);

  explicit KernelModule(std::shared_ptr<GpuDevice> gpu);
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  /// `name` must be a literal. The GPU must be current. Throws BackendError where there is none.
  cuda_api::Kernel find(const char* name);

 private:
  const std::shared_ptr<GpuDevice> gpu_;  // of who came first; it keeps the context
  cuda_api::Module module_ = nullptr;
  std::mutex mutex_;  // guards what follows
  std::map<std::string_view, cuda_api::Kernel> kernels_;
};

}  // namespace hymn::cuda
