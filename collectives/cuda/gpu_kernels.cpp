#include "collectives/cuda/gpu_kernels.hpp"

#include "collectives/cuda/kernel_module.hpp"
#include "gpu/cuda_calls.hpp"

namespace hymn::cuda {

GpuKernels::GpuKernels(std::shared_ptr<GpuDevice> gpu) : gpu_(std::move(gpu)) {}
GpuKernels::~GpuKernels() = default;

void GpuKernels::launch_with(const char* name, unsigned blocks, cuda_api::Stream stream,
                             void** arguments) {
  const GpuDevice::Entry entry(*gpu_);
  const cuda_api::Functions& cuda = gpu_->cuda();
  call(cuda, cuda.launch, module().find(name), blocks, 1u, 1u, threads_of_block, 1u, 1u, 0u, stream,
       arguments, static_cast<void**>(nullptr));
}

KernelModule& GpuKernels::module() {
  std::lock_guard lock(mutex_);
  if (module_ == nullptr) module_ = KernelModule::of(gpu_);
  return *module_;
}

}  // namespace hymn::cuda
