// From hwloc's objects to a Machine.
#include "topology/hwloc_view.hpp"

#include <fmt/format.h>
#include <hwloc.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "hymn/error.hpp"
#include "topology/kernel_devices.hpp"

namespace hymn {
namespace {

constexpr std::size_t most_gpus = 256;

/// hwloc puts any number that its XML gives into its enumerations.
template <typename Enum>
unsigned raw(const Enum& value) {
  unsigned number = 0;
  static_assert(sizeof value == sizeof number);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap) {
  CpuSet set;
  if (bitmap == nullptr) return set;
  for (int cpu = hwloc_bitmap_first(bitmap); cpu >= 0 && cpu <= CpuSet::max_cpu;
       cpu = hwloc_bitmap_next(bitmap, cpu)) {
    set.add(cpu);
  }
  return set;
}

std::string info_of(hwloc_obj_t object, const char* name) {
  const char* value = hwloc_obj_get_info_by_name(object, name);
  return value == nullptr ? "" : value;
}

int os_index_of(hwloc_obj_t object) { return static_cast<int>(object->os_index); }

/// Reads one loaded topology.
class HwlocReader {
 public:
  explicit HwlocReader(hwloc_topology_t topology) : topology_(topology) {}

  HwlocView read(std::string source) {
    view_.machine.source = std::move(source);
    view_.machine.name = info_of(hwloc_get_root_obj(topology_), "HostName");
    read_cpus();
    read_gpus();
    read_nvlinks();
    read_nics();
    return std::move(view_);
  }

 private:
  template <typename Visit>
  void each(hwloc_obj_type_t type, Visit visit) {
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(topology_, type, object)) != nullptr;) {
      visit(object);
    }
  }

  void read_cpus();
  void read_cores();
  void read_gpus();
  void read_nvlinks();
  void read_nics();
  void add_gpu(hwloc_obj_t device);
  void read_gpu_drivers(hwloc_obj_t device, Gpu& gpu) const;
  void sort_gpus();
  template <typename Device>
  void locate(hwloc_obj_t object, Device& device) const;
  int end_of(hwloc_obj_t object) const;

  hwloc_topology_t topology_;
  HwlocView view_;
  std::vector<hwloc_obj_t> devices_;  // in the order of the GPUs
};

void HwlocReader::read_cpus() {
  Machine& machine = view_.machine;
  const hwloc_const_bitmap_t all = hwloc_topology_get_topology_cpuset(topology_);
  if (hwloc_bitmap_last(all) > CpuSet::max_cpu || hwloc_bitmap_last(all) < 0) {
    throw ConfigError(fmt::format("its CPUs are not numbered 0 to {}", CpuSet::max_cpu));
  }
  machine.cpus = to_cpu_set(all);
  machine.allowed_cpus = to_cpu_set(hwloc_topology_get_allowed_cpuset(topology_)) & machine.cpus;
  each(HWLOC_OBJ_PACKAGE, [&](hwloc_obj_t object) {
    machine.packages.push_back(
        {os_index_of(object), to_cpu_set(object->cpuset), info_of(object, "CPUModel")});
  });
  // Some virtual machines and boards tell of none.
  if (machine.packages.empty()) machine.packages.push_back({-1, machine.cpus, ""});
  each(HWLOC_OBJ_NUMANODE, [&](hwloc_obj_t object) {
    NumaNode node{.os_index = os_index_of(object), .cpus = to_cpu_set(object->cpuset)};
    node.memory_bytes = object->attr->numanode.local_memory;
    node.package = holder_of(machine.packages, node.cpus);
    machine.numa_nodes.push_back(std::move(node));
  });
  for (const hwloc_obj_type_t type : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE}) {
    each(type, [&](hwloc_obj_t object) {
      machine.caches.push_back({static_cast<int>(object->attr->cache.depth),
                                object->attr->cache.size, to_cpu_set(object->cpuset)});
    });
  }
  read_cores();
}

void HwlocReader::read_cores() {
  Machine& machine = view_.machine;
  const auto add = [&](hwloc_obj_t object) {
    Core core{.os_index = os_index_of(object), .cpus = to_cpu_set(object->cpuset)};
    core.package = holder_of(machine.packages, core.cpus);
    core.numa = holder_of(machine.numa_nodes, core.cpus);
    machine.cores.push_back(std::move(core));
  };
  each(HWLOC_OBJ_CORE, add);
  // Where nobody tells which hardware threads make a core, each is one.
  if (machine.cores.empty()) each(HWLOC_OBJ_PU, add);
}

template <typename Device>
void HwlocReader::locate(hwloc_obj_t object, Device& device) const {
  const hwloc_obj_t place = hwloc_get_non_io_ancestor_obj(topology_, object);
  if (place == nullptr) return;
  const CpuSet cpus = to_cpu_set(place->cpuset);
  device.package = holder_of(view_.machine.packages, cpus);
  device.numa = holder_of(view_.machine.numa_nodes, cpus);
}

std::optional<PciAddress> address_of(hwloc_obj_t device) {
  if (device == nullptr || device->type != HWLOC_OBJ_PCI_DEVICE) return std::nullopt;
  const auto& pci = device->attr->pcidev;
  return PciAddress{static_cast<std::uint32_t>(pci.domain), pci.bus, pci.dev, pci.func};
}

hwloc_obj_t pci_parent(hwloc_obj_t object) {
  while (object != nullptr && object->type != HWLOC_OBJ_PCI_DEVICE) object = object->parent;
  return object;
}

bool is_gpu_driver(hwloc_obj_t object) {
  return object->type == HWLOC_OBJ_OS_DEVICE && object->name != nullptr &&
         (std::strncmp(object->name, "cuda", 4) == 0 || std::strncmp(object->name, "nvml", 4) == 0);
}

bool is_gpu(hwloc_obj_t device) {
  const auto& pci = device->attr->pcidev;
  if (pci.vendor_id == nvidia_vendor && pci.class_id >> 8 == 0x03) return true;
  for (hwloc_obj_t child = device->io_first_child; child; child = child->next_sibling) {
    if (is_gpu_driver(child)) return true;
  }
  return false;
}

GpuSite site_of(hwloc_obj_t device) {
  GpuSite site;
  if (device->type != HWLOC_OBJ_PCI_DEVICE) return site;
  const double speed = device->attr->pcidev.linkspeed;  // GB/s, one direction
  const bool plausible = std::isfinite(speed) && speed > 0 && speed < 1e5;
  if (plausible) site.bandwidth = std::round(speed * 1e3) * 1e6;
  hwloc_obj_t above = device->parent;
  for (; above != nullptr && above->type == HWLOC_OBJ_BRIDGE; above = above->parent) {
    site.bridges.push_back(above->gp_index);
    if (raw(above->attr->bridge.upstream_type) == HWLOC_OBJ_BRIDGE_HOST) break;
  }
  // Without a host bridge, what the topmost bridge hangs on stands for one.
  if (above != nullptr && above->type != HWLOC_OBJ_BRIDGE) site.bridges.push_back(above->gp_index);
  std::reverse(site.bridges.begin(), site.bridges.end());
  return site;
}

/// "cuda3": 3
int number_of(const char* name) {
  int number = -1;
  std::from_chars(name + 4, name + std::strlen(name), number);
  return number;
}

/// What hwloc's plug-ins for CUDA and NVML left below a device, or beside it without one.
void HwlocReader::read_gpu_drivers(hwloc_obj_t device, Gpu& gpu) const {
  const bool alone = device->type == HWLOC_OBJ_OS_DEVICE;
  const auto read = [&](hwloc_obj_t object) {
    if (object->name[0] == 'c') gpu.index = number_of(object->name);
    if (gpu.name.empty()) gpu.name = info_of(object, "GPUModel");
    if (gpu.uuid.empty()) gpu.uuid = info_of(object, "NVIDIAUUID");
    const std::string kib = info_of(object, "CUDAGlobalMemorySize");
    std::uint64_t size = 0;
    const auto [end, error] = std::from_chars(kib.data(), kib.data() + kib.size(), size);
    if (error == std::errc{} && size < UINT64_MAX / 1024) gpu.memory_bytes = size * 1024;
  };
  if (alone) return read(device);
  for (hwloc_obj_t child = device->io_first_child; child; child = child->next_sibling) {
    if (is_gpu_driver(child)) read(child);
  }
  if (gpu.name.empty()) gpu.name = info_of(device, "PCIDevice");
}

void HwlocReader::add_gpu(hwloc_obj_t device) {
  if (devices_.size() == most_gpus) {
    throw ConfigError(fmt::format("it has more than {} GPUs", most_gpus));
  }
  Gpu gpu;
  gpu.pci = address_of(device);
  locate(device, gpu);
  read_gpu_drivers(device, gpu);
  view_.machine.gpus.push_back(std::move(gpu));
  devices_.push_back(device);
}

void HwlocReader::read_gpus() {
  each(HWLOC_OBJ_PCI_DEVICE, [&](hwloc_obj_t device) {
    if (is_gpu(device)) add_gpu(device);
  });
  each(HWLOC_OBJ_OS_DEVICE, [&](hwloc_obj_t device) {
    // NVML's half of a GPU without an address cannot be matched to CUDA's half; CUDA's counts.
    if (!is_gpu_driver(device) || device->name[0] != 'c' || pci_parent(device) != nullptr) return;
    add_gpu(device);
    view_.machine.remarks.push_back(
        fmt::format("{} has no PCI address: its links are guessed from where it is", device->name));
  });
  sort_gpus();
  for (const hwloc_obj_t device : devices_) view_.sites.push_back(site_of(device));
}

/// As CUDA numbers them where it has numbered all, else by PCI address.
void HwlocReader::sort_gpus() {
  std::vector<Gpu>& gpus = view_.machine.gpus;
  const bool numbered =
      std::all_of(gpus.begin(), gpus.end(), [](const Gpu& gpu) { return gpu.index >= 0; });
  std::vector<std::size_t> order(gpus.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return numbered ? gpus[a].index < gpus[b].index : gpus[a].pci < gpus[b].pci;
  });
  std::vector<Gpu> sorted;
  std::vector<hwloc_obj_t> devices;
  for (const std::size_t i : order) {
    sorted.push_back(std::move(gpus[i]));
    sorted.back().index = static_cast<int>(sorted.size()) - 1;
    devices.push_back(devices_[i]);
  }
  gpus = std::move(sorted);
  devices_ = std::move(devices);
}

void HwlocReader::read_nics() {
  each(HWLOC_OBJ_OS_DEVICE, [&](hwloc_obj_t object) {
    const unsigned type = raw(object->attr->osdev.type);
    if (type != HWLOC_OBJ_OSDEV_NETWORK && type != HWLOC_OBJ_OSDEV_OPENFABRICS) return;
    Nic nic{.name = object->name == nullptr ? "" : object->name,
            .pci = address_of(pci_parent(object))};
    locate(object, nic);
    view_.machine.nics.push_back(std::move(nic));
  });
}

/// What a row of hwloc's NVLink matrix stands for.
int HwlocReader::end_of(hwloc_obj_t object) const {
  const hwloc_obj_t device = object == nullptr ? nullptr : pci_parent(object);
  const auto found =
      std::find(devices_.begin(), devices_.end(), device == nullptr ? object : device);
  if (found != devices_.end()) return static_cast<int>(found - devices_.begin());
  const bool is_port = object != nullptr && object->type == HWLOC_OBJ_PCI_DEVICE;
  return is_port ? NvlinkMatrix::switch_port : NvlinkMatrix::other;
}

void HwlocReader::read_nvlinks() {
  unsigned count = 1;
  hwloc_distances_s* distances = nullptr;
  if (hwloc_distances_get_by_name(topology_, "NVLinkBandwidth", &count, &distances, 0) != 0 ||
      count == 0) {
    return;
  }
  if (count > 1) {
    view_.machine.remarks.push_back(
        fmt::format("there are {} NVLink matrices; the first was taken", count));
  }
  NvlinkMatrix& matrix = view_.nvlinks;
  for (unsigned i = 0; i < distances->nbobjs; ++i) {
    matrix.ends.push_back(end_of(distances->objs[i]));
  }
  const std::size_t values = matrix.ends.size() * matrix.ends.size();
  for (std::size_t i = 0; i < values; ++i) {
    matrix.bandwidths.push_back(static_cast<double>(distances->values[i]) * 1e6);
  }
  hwloc_distances_release(topology_, distances);
}

}  // namespace

HwlocView view_of(hwloc_topology* topology, std::string source) {
  return HwlocReader(topology).read(std::move(source));
}

}  // namespace hymn
