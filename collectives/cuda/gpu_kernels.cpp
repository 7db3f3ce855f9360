#include "collectives/cuda/gpu_kernels.hpp"

#include "collectives/cuda/kernel_image.hpp"
#include "gpu/cuda_calls.hpp"
#include "hymn/error.hpp"

namespace hymn::cuda {

// The driver may be gone by now, at the end of the process: nothing is done about failures.
GpuKernels::~GpuKernels() {
  if (module_ == nullptr) return;
  try {
    const GpuDevice::Entry entry(*gpu_);
    gpu_->cuda().unload_module.pointer(module_);
  } catch (const Error&) {
  }
}

void GpuKernels::launch_with(const char* name, unsigned blocks, cuda_api::Stream stream,
                             void** arguments) {
  const GpuDevice::Entry entry(*gpu_);
  const cuda_api::Functions& cuda = gpu_->cuda();
  call(cuda, cuda.launch, find(name), blocks, 1u, 1u, threads_of_block, 1u, 1u, 0u, stream,
       arguments, static_cast<void**>(nullptr));
}

cuda_api::Kernel GpuKernels::find(const char* name) {
  const cuda_api::Functions& cuda = gpu_->cuda();
  std::lock_guard lock(mutex_);
  if (module_ == nullptr) {
    const auto image = kernel_image();
    if (image.empty())
      throw UnsupportedError("this build of hymn has no kernels for GPUs",
                             {.remedy = "build hymn where nvcc is (-DHYMN_CUDA=ON insists on it)"});
    call(cuda, cuda.load_module, &module_, static_cast<const void*>(image.data()));
  }
  cuda_api::Kernel& kernel = kernels_[name];
  if (kernel == nullptr) call(cuda, cuda.kernel_of_module, &kernel, module_, name);
  return kernel;
}

}  // namespace hymn::cuda
