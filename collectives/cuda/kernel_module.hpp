// The image of all kernels, as the driver has loaded it for one GPU.
#pragma once

#include <map>
#include <memory>
#include <string_view>

#include "gpu/gpu_device.hpp"

namespace hymn::cuda {

/// Thread-safe.
class KernelModule {
 public:
  /// That of the GPU's context, which all in this process share while one of them holds it. Throws
  /// UnsupportedError where hymn was built without nvcc, BackendError as the driver's calls fail.
  /// All kernels are loaded at once: a driver may wait for those that run when it loads one, and
  /// they may wait for what this rank would do next.
  static std::shared_ptr<KernelModule> of(const std::shared_ptr<GpuDevice>& gpu);

  explicit KernelModule(std::shared_ptr<GpuDevice> gpu);
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  /// Throws an internal Error where there is none.
  cuda_api::Kernel find(std::string_view name) const;

 private:
  cuda_api::Kernel load(const char* name) const;
  void load_all();

  const std::shared_ptr<GpuDevice> gpu_;  // of who came first; it keeps the context
  cuda_api::Module module_ = nullptr;
  std::map<std::string_view, cuda_api::Kernel> kernels_;
};

}  // namespace hymn::cuda
