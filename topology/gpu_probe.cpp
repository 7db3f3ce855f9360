// The GPUs of this host: CUDA tells which ones this process may use, NVML how they are joined.
//
// CUDA follows CUDA_VISIBLE_DEVICES and numbers GPUs as the process will; NVML lists all of them in
// the order of the bus. They are matched by UUID, then by PCI address.
#include "topology/gpu_probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gpu/gpu_functions.hpp"
#include "topology/gpu_calls.hpp"
#include "topology/gpu_nvml.hpp"

namespace hymn {
namespace {

std::string explain_cuda(const cuda_api::Functions& functions, int result) {
  const char* name = nullptr;
  if (functions.error_name.pointer != nullptr) functions.error_name.pointer(result, &name);
  return name != nullptr ? fmt::format("{} ({})", name, result) : fmt::format("error {}", result);
}

/// As NVML writes it.
std::string to_string(const cuda_api::Uuid& uuid) {
  std::string text = "GPU";
  for (std::size_t i = 0; i < uuid.bytes.size(); ++i) {
    if (i == 0 || i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid.bytes[i]);
  }
  return text;
}

class Cuda {
 public:
  Cuda(const GpuFunctions& functions, std::vector<std::string>& remarks)
      : functions_(functions.cuda), ask_("libcuda.so.1", remarks, [this](int result) {
          return explain_cuda(functions_, result);
        }) {
    if (!functions.cuda_problem.empty()) {
      remarks.push_back(
          fmt::format("no GPUs: there is no NVIDIA driver here ({})", functions.cuda_problem));
      return;
    }
    ask_(functions_.driver_version, &version_);
    if (ask_(functions_.init, 0u)) list();
  }

  int version() const { return version_; }
  std::vector<Gpu> gpus() const { return gpus_; }

  std::optional<bool> peer_access(std::size_t from, std::size_t to) {
    int access = 0;
    if (!ask_(functions_.can_access_peer, &access, devices_[from], devices_[to])) return {};
    return access != 0;
  }

 private:
  void list() {
    int count = 0;
    if (!ask_(functions_.count, &count)) return;
    for (int i = 0; i < std::min(count, static_cast<int>(max_gpus_of_a_host)); ++i) {
      cuda_api::Device device = 0;
      if (!ask_(functions_.device, &device, i)) continue;
      devices_.push_back(device);
      gpus_.push_back(describe(device, i));
    }
  }

  Gpu describe(cuda_api::Device device, int index) {
    Gpu gpu;
    gpu.index = index;
    std::array<char, 256> text{};
    constexpr int room = text.size() - 1;  // the last character stays 0
    if (ask_(functions_.name, text.data(), room, device)) gpu.name = text.data();
    text = {};
    if (ask_(functions_.pci_bus_id, text.data(), room, device)) {
      gpu.pci = PciAddress::parse(text.data());
    }
    cuda_api::Uuid uuid{};
    const auto& uuid_function = functions_.uuid.pointer ? functions_.uuid : functions_.old_uuid;
    if (ask_(uuid_function, &uuid, device)) gpu.uuid = to_string(uuid);
    std::size_t bytes = 0;
    if (ask_(functions_.total_memory, &bytes, device)) gpu.memory_bytes = bytes;
    gpu.compute_major = attribute(cuda_api::attribute_compute_major, device);
    gpu.compute_minor = attribute(cuda_api::attribute_compute_minor, device);
    return gpu;
  }

  int attribute(int attribute, cuda_api::Device device) {
    int value = 0;
    return ask_(functions_.attribute, &value, attribute, device) ? value : 0;
  }

  const cuda_api::Functions& functions_;
  GpuCalls ask_;
  int version_ = 0;
  std::vector<cuda_api::Device> devices_;
  std::vector<Gpu> gpus_;
};

/// NVML's entry for a GPU that CUDA lists.
struct Match {
  const NvmlGpu* gpu = nullptr;
  bool slice = false;  ///< CUDA sees only a part of it
};

Match match(const Gpu& wanted, const std::vector<NvmlGpu>& all) {
  for (const NvmlGpu& gpu : all) {
    if (!wanted.uuid.empty() && gpu.uuid == wanted.uuid) return {&gpu, false};
  }
  for (const NvmlGpu& gpu : all) {
    if (wanted.pci && gpu.pci == wanted.pci) {
      return {&gpu, !wanted.uuid.empty() && !gpu.uuid.empty()};
    }
  }
  return {};
}

/// NVML's handles of the inventory's GPUs; also counts what is hidden, and remarks on the rest.
std::vector<nvml_api::Device> match_all(GpuInventory& inventory, const std::vector<NvmlGpu>& all) {
  std::vector<nvml_api::Device> handles;
  std::vector<const NvmlGpu*> seen;
  int slices = 0;
  int unknown = 0;
  for (Gpu& gpu : inventory.gpus) {
    const Match found = match(gpu, all);
    slices += found.slice ? 1 : 0;
    unknown += found.gpu == nullptr ? 1 : 0;
    // NVLink does not reach into slices.
    handles.push_back(found.gpu != nullptr && !found.slice ? found.gpu->handle : nullptr);
    if (found.gpu != nullptr) seen.push_back(found.gpu);
    if (found.slice) gpu.uuid.replace(0, 3, "MIG");
  }
  for (const NvmlGpu& gpu : all) {
    inventory.hidden_gpus += std::find(seen.begin(), seen.end(), &gpu) == seen.end() ? 1 : 0;
  }
  if (slices > 0) {
    inventory.remarks.push_back(fmt::format(
        "{} of the GPUs are MIG slices, which cannot reach each other's memory", slices));
  }
  if (unknown > 0 && !all.empty()) {
    inventory.remarks.push_back(
        fmt::format("NVML does not know {} of the GPUs that CUDA lists", unknown));
  }
  return handles;
}

}  // namespace

GpuInventory probe_gpus(const GpuFunctions& functions) {
  GpuInventory inventory;
  Cuda cuda(functions, inventory.remarks);
  // Without the driver itself NVML has nothing to add.
  if (!functions.cuda_problem.empty()) return inventory;
  inventory.cuda_driver = cuda.version();
  inventory.gpus = cuda.gpus();
  Nvml nvml(functions, inventory.remarks);
  inventory.driver_version = nvml.driver_version();
  nvml.add_links(inventory, match_all(inventory, nvml.gpus()));
  const std::size_t count = inventory.gpus.size();
  for (std::size_t from = 0; from < count; ++from) {
    for (std::size_t to = 0; to < count; ++to) {
      if (from != to) {
        inventory.links[from * count + to].peer_access = cuda.peer_access(from, to);
      }
    }
  }
  return inventory;
}

GpuInventory probe_gpus() { return probe_gpus(loaded_gpu_functions()); }

std::vector<Gpu> gpus_in_driver(const GpuFunctions& functions) {
  std::vector<std::string> remarks;
  return Cuda(functions, remarks).gpus();
}

int find_gpu(std::span<const Gpu> gpus, const Gpu& wanted) {
  const auto place_of = [gpus](const auto& is_it) {
    const auto found = std::find_if(gpus.begin(), gpus.end(), is_it);
    return found == gpus.end() ? -1 : static_cast<int>(found - gpus.begin());
  };
  const int by_uuid = place_of(
      [&wanted](const Gpu& gpu) { return !wanted.uuid.empty() && gpu.uuid == wanted.uuid; });
  if (by_uuid >= 0) return by_uuid;
  return place_of([&wanted](const Gpu& gpu) { return wanted.pci && gpu.pci == wanted.pci; });
}

int index_in_driver(const GpuFunctions& functions, const Gpu& gpu) {
  const std::vector<Gpu> seen = gpus_in_driver(functions);
  const int found = find_gpu(seen, gpu);
  return found < 0 ? -1 : seen[static_cast<std::size_t>(found)].index;
}

}  // namespace hymn
