// This host in full, and machines in files of either kind.
#include "topology/read_machine.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/descriptor.hpp"
#include "base/kernel_file.hpp"
#include "hymn/error.hpp"
#include "topology/hwloc_view.hpp"
#include "topology/kernel_devices.hpp"

namespace hymn {
namespace {

constexpr off_t most_bytes = off_t{64} << 20;

[[noreturn]] void refuse_file(const std::string& path, const std::string& problem) {
  ErrorContext context;
  context.remedy = "name a file written by lstopo (XML) or by \"hymn topo --json\"";
  throw ConfigError(fmt::format("the topology file \"{}\" {}", path, problem), context);
}

std::string contents_of(const std::string& path) {
  // A FIFO without a writer must not stop us here.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status{};
  if (!file || fstat(file.number(), &status) != 0) {
    refuse_file(path, fmt::format("cannot be opened: {}", std::strerror(errno)));
  }
  if (!S_ISREG(status.st_mode)) refuse_file(path, "is not a regular file");
  if (status.st_size > most_bytes) {
    refuse_file(path, fmt::format("has {} bytes, more than {}", status.st_size, most_bytes));
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t have = 0;
  while (have < text.size()) {
    const ssize_t got = read(file.number(), text.data() + have, text.size() - have);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) refuse_file(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) break;
    have += static_cast<std::size_t>(got);
  }
  text.resize(have);
  if (text.empty()) refuse_file(path, "is empty");
  return text;
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

double decimal_in(const std::string& path) {
  return std::strtod(first_line_of(path).c_str(), nullptr);
}

/// What a PCI port can do at best, bytes per second in one direction. What it does now says
/// little: GPUs that sleep let their links sleep, too.
double best_pci_bandwidth(const std::string& port) {
  const double transfers = decimal_in(port + "/max_link_speed");  // "16.0 GT/s PCIe"
  const double lanes = decimal_in(port + "/max_link_width");
  if (!(transfers > 0 && transfers < 1e3 && lanes > 0 && lanes <= 32)) return 0;
  const double coding = transfers < 8 ? 8.0 / 10 : 128.0 / 130;
  return transfers * 1e9 / 8 * coding * lanes;
}

void read_pci_speeds(HwlocView& view) {
  for (std::size_t i = 0; i < view.sites.size(); ++i) {
    const std::optional<PciAddress>& pci = view.machine.gpus[i].pci;
    if (!pci) continue;
    const std::string device = "/sys/bus/pci/devices/" + pci->to_string();
    const double own = best_pci_bandwidth(device);
    const double above = best_pci_bandwidth(device + "/..");
    if (own > 0) view.sites[i].bandwidth = above > 0 ? std::min(own, above) : own;
  }
}

void read_nic_speeds(Machine& machine) {
  for (Nic& nic : machine.nics) {
    const double megabits = decimal_in("/sys/class/net/" + nic.name + "/speed");
    const double gigabits = decimal_in("/sys/class/infiniband/" + nic.name + "/ports/1/rate");
    // -1 stands for "not known".
    if (megabits > 0) nic.bandwidth = megabits * 1e6 / 8;
    if (gigabits > 0) nic.bandwidth = gigabits * 1e9 / 8;
  }
}

/// An operating system may tell contradictory things; a job must start all the same.
void make_sound(Machine& machine) {
  try {
    check_machine(machine);
    return;
  } catch (const UsageError& error) {
    machine.remarks.push_back(fmt::format("GPUs and NICs were left out: {}", error.problem()));
  }
  machine.gpus.clear();
  machine.gpu_links.clear();
  machine.nics.clear();
  check_machine(machine);
}

/// Of hwloc's, by the variables with which its users replace what it reads.
bool shows_another_machine() {
  constexpr std::array variables = {"HWLOC_XMLFILE", "HWLOC_SYNTHETIC", "HWLOC_FSROOT",
                                    "HWLOC_CPUID_PATH"};
  return std::any_of(variables.begin(), variables.end(),
                     [](const char* name) { return std::getenv(name) != nullptr; });
}

}  // namespace

Machine read_this_machine() {
  GpuInventory gpus = probe_gpus();
  // hwloc tells where GPUs hang; without any the kernel's files tell of NICs far sooner.
  const bool by_hwloc = gpus.cuda_driver != 0 || has_gpu_on_bus() || shows_another_machine();
  HwlocView view = view_of_this_host(by_hwloc);
  read_pci_speeds(view);
  Machine machine = std::move(view.machine);
  if (!by_hwloc) machine.nics = list_nics(machine);
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size() - 1) == 0) machine.name = name.data();
  // hwloc reads the files of the cgroup, which not every container shows.
  machine.allowed_cpus |= CpuSet::of_this_thread() & machine.cpus;
  merge_probed_gpus(machine, std::move(view.sites), std::move(gpus));
  read_nic_speeds(machine);
  machine.memory = read_memory_limits();
  make_sound(machine);
  return machine;
}

Machine read_xml_file(const std::string& path) {
  return read_xml(contents_of(path), file_name(path));
}

Machine read_machine_file(const std::string& path) {
  const std::string text = contents_of(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) refuse_file(path, "is blank");
  if (text[first] == '{') return machine_from_json(text, file_name(path));
  if (text[first] == '<') return read_xml(text, file_name(path));
  refuse_file(path, "is neither XML nor JSON");
}

}  // namespace hymn
