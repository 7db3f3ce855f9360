#include "topology/kernel_devices.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <tuple>

#include "base/kernel_file.hpp"

namespace hymn {
namespace {

namespace fs = std::filesystem;

constexpr unsigned long display_class = 0x03;

/// The names in a folder of the kernel's; none where there is no such folder.
std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error))
    names.push_back(entry->path().filename().string());
  return names;
}

unsigned long hexadecimal_in(const std::string& path) {
  return std::strtoul(first_line_of(path).c_str(), nullptr, 16);
}

/// "…/pci0000:00/0000:00:02.0/0000:03:00.0/net/eth0": the last address in it.
std::optional<PciAddress> address_in(std::string_view path) {
  std::optional<PciAddress> last;
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    if (const auto address = PciAddress::parse(path.substr(0, end))) last = address;
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return last;
}

void locate(Nic& nic, const std::string& device, const Machine& machine) {
  CpuSet near = CpuSet::parse(first_line_of(device + "/local_cpulist")).value_or(CpuSet());
  near &= machine.cpus;
  if (near.empty()) near = machine.cpus;
  nic.package = holder_of(machine.packages, near);
  nic.numa = holder_of(machine.numa_nodes, near);
}

}  // namespace

bool has_gpu_on_bus(const std::string& root) {
  const std::string folder = root + "/sys/bus/pci/devices/";
  const auto names = names_in(folder);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    return hexadecimal_in(folder + name + "/vendor") == nvidia_vendor &&
           hexadecimal_in(folder + name + "/class") >> 16 == display_class;
  });
}

std::vector<Nic> list_nics(const Machine& machine, const std::string& root) {
  std::vector<Nic> nics;
  for (const char* kind : {"net", "infiniband"}) {
    const std::string folder = root + "/sys/class/" + kind + "/";
    for (const std::string& name : names_in(folder)) {
      std::error_code error;
      const std::string target = fs::read_symlink(folder + name, error).string();
      // What is behind USB is no way between the hosts of a job.
      if (error || target.find("/virtual/") != std::string::npos ||
          target.find("/usb") != std::string::npos)
        continue;
      Nic nic{.name = name, .pci = address_in(target)};
      const std::string bus = root + "/sys/bus/pci/devices/";
      locate(nic, nic.pci ? bus + nic.pci->to_string() : folder + name + "/device", machine);
      nics.push_back(std::move(nic));
    }
  }
  std::sort(nics.begin(), nics.end(), [](const Nic& a, const Nic& b) {
    return std::tie(a.pci, a.name) < std::tie(b.pci, b.name);
  });
  return nics;
}

}  // namespace hymn
