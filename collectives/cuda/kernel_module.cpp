#include "collectives/cuda/kernel_module.hpp"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/kernel_lists.hpp"
#include "gpu/cuda_calls.hpp"
#include "hymn/error.hpp"

namespace hymn::cuda {
namespace {

/// All of this process, by the driver's functions and its context. They outlive what is destroyed
/// at the process's end.
struct Loaded {
  std::mutex mutex;
  std::map<std::pair<const cuda_api::Functions*, cuda_api::Context>, std::weak_ptr<KernelModule>>
      modules;
};
Loaded& loaded() {
  static auto* all = new Loaded();
  return *all;
}

}  // namespace

// Who comes while another loads it waits, and has it then.
std::shared_ptr<KernelModule> KernelModule::of(const std::shared_ptr<GpuDevice>& gpu) {
  const std::pair key(&gpu->cuda(), gpu->context());
  Loaded& all = loaded();
  std::lock_guard lock(all.mutex);
  const auto found = all.modules.find(key);
  if (found != all.modules.end())
    if (auto module = found->second.lock()) return module;
  auto module = std::make_shared<KernelModule>(gpu);
  all.modules[key] = module;
  return module;
}

KernelModule::KernelModule(std::shared_ptr<GpuDevice> gpu) : gpu_(std::move(gpu)) {
  const auto image = kernel_image();
  if (image.empty())
    throw UnsupportedError("this build of hymn has no GPU kernels",
                           {.remedy = "build hymn with nvcc (-DHYMN_CUDA=ON requires it)"});
  const GpuDevice::Entry entry(*gpu_);
  const cuda_api::Functions& cuda = gpu_->cuda();
  call(cuda, cuda.load_module, &module_, static_cast<const void*>(image.data()));
  try {
    load_all();
  } catch (...) {
    cuda.unload_module.pointer(module_);
    throw;
  }
}

#define HYMN_KERNEL_NAME(name, ...) #name,
void KernelModule::load_all() {
  constexpr const char* names[] = {HYMN_FIND_NAN_KERNELS(HYMN_KERNEL_NAME) HYMN_WIDEN_KERNELS(
      HYMN_KERNEL_NAME) HYMN_NARROW_KERNELS(HYMN_KERNEL_NAME) HYMN_PEER_KERNELS(HYMN_KERNEL_NAME)};
  for (const char* const name : names) kernels_.emplace(name, load(name));
}
#undef HYMN_KERNEL_NAME

// Drivers before CUDA 12.4 load a kernel when they are asked for it, later ones perhaps not before
// it is launched.
cuda_api::Kernel KernelModule::load(const char* name) const {
  const cuda_api::Functions& cuda = gpu_->cuda();
  cuda_api::Kernel kernel = nullptr;
  call(cuda, cuda.kernel_of_module, &kernel, module_, name);
  if (cuda.load_kernel.pointer != nullptr) call(cuda, cuda.load_kernel, kernel);
  return kernel;
}

// The driver may be gone by now, at the end of the process: nothing is done about failures.
KernelModule::~KernelModule() {
  try {
    const GpuDevice::Entry entry(*gpu_);
    gpu_->cuda().unload_module.pointer(module_);
  } catch (const Error&) {
  }
}

cuda_api::Kernel KernelModule::find(std::string_view name) const {
  const auto found = kernels_.find(name);
  if (found == kernels_.end())
    throw Error(ErrorKind::internal, fmt::format("there is no kernel {}", name));
  return found->second;
}

}  // namespace hymn::cuda
