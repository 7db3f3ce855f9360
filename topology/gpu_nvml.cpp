#include "topology/gpu_nvml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "topology/gpu_links.hpp"

namespace hymn {
namespace {

using namespace nvml_api;

/// Text that a C function has written; the last character is ours, whatever it wrote.
template <std::size_t n>
std::string text_of(std::array<char, n>& buffer) {
  buffer.back() = '\0';
  return buffer.data();
}

std::string explain_nvml(const nvml_api::Functions& functions, int result) {
  const char* const text =
      functions.error_string.pointer != nullptr ? functions.error_string.pointer(result) : nullptr;
  return text != nullptr ? fmt::format("{} ({})", text, result) : fmt::format("error {}", result);
}

GpuLinkKind kind_of_level(unsigned level) {
  if (level <= level_multiple_switches) return GpuLinkKind::pcie_switch;
  if (level <= level_node) return GpuLinkKind::host_bridge;
  return level <= level_system ? GpuLinkKind::system : GpuLinkKind::unknown;
}

}  // namespace

Nvml::Nvml(const GpuFunctions& functions, std::vector<std::string>& remarks)
    : functions_(functions.nvml),
      ask_("libnvidia-ml.so.1", remarks,
           [this](int result) { return explain_nvml(functions_, result); },
           {invalid_argument, not_supported}) {
  if (!functions.nvml_problem.empty()) {
    remarks.push_back(
        fmt::format("NVML cannot be loaded, so links between GPUs are not known in full: {}",
                    functions.nvml_problem));
    return;
  }
  started_ = ask_(functions_.init);
  if (started_) list();
}

Nvml::~Nvml() {
  if (started_ && functions_.shutdown.pointer != nullptr) functions_.shutdown.pointer();
}

void Nvml::list() {
  unsigned count = 0;
  if (!ask_(functions_.count, &count)) return;
  for (unsigned i = 0; i < std::min(count, max_gpus_of_a_host); ++i) {
    NvmlGpu gpu;
    if (!ask_(functions_.device, i, &gpu.handle)) continue;
    std::array<char, 96> uuid{};
    if (ask_(functions_.uuid, gpu.handle, uuid.data(), static_cast<unsigned>(uuid.size()))) {
      gpu.uuid = text_of(uuid);
    }
    PciInfo pci{};
    if (ask_(functions_.pci_info, gpu.handle, &pci)) {
      gpu.pci = PciAddress::parse(text_of(pci.bus_id));
    }
    gpus_.push_back(std::move(gpu));
  }
}

std::string Nvml::driver_version() {
  std::array<char, 96> version{};
  if (!started_ ||
      !ask_(functions_.driver_version, version.data(), static_cast<unsigned>(version.size()))) {
    return "";
  }
  return text_of(version);
}

void Nvml::add_links(GpuInventory& inventory, const std::vector<Device>& handles) {
  add_nvlinks(inventory, handles);
  add_ancestors(inventory, handles);
}

void Nvml::add_nvlinks(GpuInventory& inventory, const std::vector<Device>& handles) {
  // One end for each GPU, and one for all switches together.
  const std::size_t gpus = inventory.gpus.size();
  NvlinkMatrix matrix;
  for (std::size_t i = 0; i < gpus; ++i) matrix.ends.push_back(static_cast<int>(i));
  matrix.ends.push_back(NvlinkMatrix::switch_port);
  matrix.bandwidths.resize((gpus + 1) * (gpus + 1));
  for (std::size_t i = 0; i < gpus; ++i) {
    for (unsigned link = 0; handles[i] != nullptr && link < max_links; ++link) {
      if (!usable(handles[i], link)) continue;
      const int end = remote_end(handles[i], link, inventory.gpus);
      if (end == NvlinkMatrix::other) continue;
      const double speed = link_speed(handles[i], link);
      const std::size_t column =
          end == NvlinkMatrix::switch_port ? gpus : static_cast<std::size_t>(end);
      matrix.bandwidths[i * (gpus + 1) + column] += speed;
      if (column == gpus) matrix.bandwidths[gpus * (gpus + 1) + i] += speed;
    }
  }
  Machine machine;
  machine.gpus = std::move(inventory.gpus);
  hymn::add_nvlinks(machine, matrix);
  inventory.gpus = std::move(machine.gpus);
  inventory.links = std::move(machine.gpu_links);
  inventory.remarks.insert(inventory.remarks.end(), machine.remarks.begin(), machine.remarks.end());
}

void Nvml::add_ancestors(GpuInventory& inventory, const std::vector<Device>& handles) {
  const std::size_t gpus = inventory.gpus.size();
  for (std::size_t i = 0; i < gpus; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      GpuLinkKind& kind = inventory.links[i * gpus + j].kind;
      unsigned level = 0;
      if (kind == GpuLinkKind::unknown && handles[i] != nullptr && handles[j] != nullptr &&
          ask_(functions_.common_ancestor, handles[i], handles[j], &level)) {
        kind = kind_of_level(level);
        inventory.links[j * gpus + i].kind = kind;
      }
    }
  }
}

/// Whether the link is up and may carry what GPUs send each other.
bool Nvml::usable(Device gpu, unsigned link) {
  unsigned enabled = 0;
  if (!ask_(functions_.link_state, gpu, link, &enabled) || enabled == 0) return false;
  unsigned p2p = 1;
  ask_(functions_.link_capability, gpu, link, capability_p2p, &p2p);
  return p2p != 0;
}

/// What is at the other end, as an end of an NvlinkMatrix.
int Nvml::remote_end(Device gpu, unsigned link, const std::vector<Gpu>& gpus) {
  unsigned type = remote_gpu;  // older drivers cannot tell; then the address decides
  ask_(functions_.link_remote_type, gpu, link, &type);
  if (type == remote_switch) return NvlinkMatrix::switch_port;
  PciInfo info{};
  if (type != remote_gpu || !ask_(functions_.link_remote_pci, gpu, link, &info)) {
    return NvlinkMatrix::other;
  }
  const auto pci = PciAddress::parse(text_of(info.bus_id));
  const auto found = std::find_if(gpus.begin(), gpus.end(),
                                  [&](const Gpu& other) { return pci && other.pci == pci; });
  return found != gpus.end() ? static_cast<int>(found - gpus.begin()) : NvlinkMatrix::other;
}

/// In bytes per second and direction, as the link signals; a few percent more than data gets.
double Nvml::link_speed(Device gpu, unsigned link) {
  // First generation, the slowest; that there is a link must not be forgotten for its speed.
  constexpr double least_mb_per_second = 20000;
  const auto common = field(gpu, field_common_link_speed, 0);
  const auto own = common ? common : field(gpu, field_link_speed, link);
  return own.value_or(least_mb_per_second) * 1e6;
}

std::optional<double> Nvml::field(Device gpu, unsigned field, unsigned scope) {
  FieldValue value{};
  value.field = field;
  value.scope = scope;
  if (!ask_(functions_.field_values, gpu, 1, &value) || value.result != success) return {};
  double number = 0;
  switch (value.type) {
    case type_double:
      number = value.value.as_double;
      break;
    case type_unsigned_int:
      number = value.value.as_unsigned_int;
      break;
    case type_unsigned_long:
      number = static_cast<double>(value.value.as_unsigned_long);
      break;
    case type_unsigned_long_long:
      number = static_cast<double>(value.value.as_unsigned_long_long);
      break;
    default:
      break;
  }
  if (!(number > 0)) return {};
  return number;
}

}  // namespace hymn
