// The GPUs of this host, asked from the CUDA driver and NVML, both loaded at run time.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/private.hpp"
#include "topology/machine.hpp"

namespace hymn {

/// What is known of the GPUs that this process can see.
struct GpuInventory {
  std::vector<Gpu> gpus;
  std::vector<GpuLink> links;        ///< gpus.size() squared, row by row
  std::vector<std::string> remarks;  ///< why there are none, or what could not be asked
  std::string driver_version;        ///< "580.95.05"; empty without a driver
  int cuda_driver = 0;               ///< 13000 for CUDA 13.0; 0 without a driver
  int hidden_gpus = 0;               ///< that NVML lists and CUDA_VISIBLE_DEVICES hides
};

/// The functions that are asked: libcuda.so.1 and libnvidia-ml.so.1 where they are there. Tests
/// give doubles (gpu/gpu_functions.hpp).
struct GpuFunctions;

/// Never throws for want of a GPU or a driver: then there are no GPUs, and a remark says why.
/// Thread-safe. Creates no CUDA context.
HYMN_PRIVATE GpuInventory probe_gpus();
GpuInventory probe_gpus(const GpuFunctions& functions);

/// As the driver lists them in this process, without what NVML knows.
std::vector<Gpu> gpus_in_driver(const GpuFunctions& functions);
/// Which of these it is, by its UUID or else its address; -1: none.
int find_gpu(std::span<const Gpu> gpus, const Gpu& wanted);
/// The number by which the driver knows that GPU in this process, which may see others than those
/// who described it; -1: it does not see it.
int index_in_driver(const GpuFunctions& functions, const Gpu& gpu);

}  // namespace hymn
