// What NVML tells: which GPUs the host has, hidden ones too, and how NVLink and PCIe join them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/gpu_functions.hpp"
#include "topology/gpu_calls.hpp"
#include "topology/gpu_probe.hpp"
#include "topology/machine.hpp"

namespace hymn {

/// A GPU as NVML lists it.
struct NvmlGpu {
  nvml_api::Device handle = nullptr;
  std::string uuid;
  std::optional<PciAddress> pci;
};

/// NVML between its initialisation and its end.
class Nvml {
 public:
  /// What fails is told by `remarks`, which must outlive this.
  Nvml(const GpuFunctions& functions, std::vector<std::string>& remarks);
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// Empty when NVML is not there or does not work.
  const std::vector<NvmlGpu>& gpus() const { return gpus_; }
  std::string driver_version();
  /// Fills in the kinds and NVLink bandwidths of inventory.links. `handles` has NVML's handle of
  /// each of the inventory's GPUs, null where there is none.
  void add_links(GpuInventory& inventory, const std::vector<nvml_api::Device>& handles);

 private:
  void list();
  void add_nvlinks(GpuInventory& inventory, const std::vector<nvml_api::Device>& handles);
  void add_ancestors(GpuInventory& inventory, const std::vector<nvml_api::Device>& handles);
  bool usable(nvml_api::Device gpu, unsigned link);
  int remote_end(nvml_api::Device gpu, unsigned link, const std::vector<Gpu>& gpus);
  double link_speed(nvml_api::Device gpu, unsigned link);
  std::optional<double> field(nvml_api::Device gpu, unsigned field, unsigned scope);

  const nvml_api::Functions& functions_;
  GpuCalls ask_;
  bool started_ = false;
  std::vector<NvmlGpu> gpus_;
};

}  // namespace hymn
