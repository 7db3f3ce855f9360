// Loading the CUDA driver and NVML.
#include "topology/gpu_functions.hpp"

#include <dlfcn.h>

namespace hymn {
namespace {

template <typename... Functions>
std::string load(const char* library, Functions&... functions) {
  void* const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* const why = dlerror();
    return why != nullptr ? why : library;
  }
  const auto find = [handle](auto& function) {
    using Pointer = decltype(function.pointer);
    function.pointer = reinterpret_cast<Pointer>(dlsym(handle, function.name));
  };
  (find(functions), ...);
  return "";
}

GpuFunctions load_all() {
  GpuFunctions all;
  cuda_api::Functions& cuda = all.cuda;
  all.cuda_problem = load("libcuda.so.1", cuda.init, cuda.error_name, cuda.driver_version,
                          cuda.count, cuda.device, cuda.name, cuda.uuid, cuda.old_uuid,
                          cuda.total_memory, cuda.attribute, cuda.pci_bus_id, cuda.can_access_peer);
  nvml_api::Functions& nvml = all.nvml;
  all.nvml_problem =
      load("libnvidia-ml.so.1", nvml.init, nvml.shutdown, nvml.error_string, nvml.driver_version,
           nvml.count, nvml.device, nvml.uuid, nvml.pci_info, nvml.link_state, nvml.link_capability,
           nvml.link_remote_type, nvml.link_remote_pci, nvml.field_values, nvml.common_ancestor);
  return all;
}

}  // namespace

const GpuFunctions& loaded_gpu_functions() {
  static const GpuFunctions functions = load_all();
  return functions;
}

}  // namespace hymn
