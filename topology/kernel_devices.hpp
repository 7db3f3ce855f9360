// Devices as the kernel's files tell of them. To ask the devices themselves, as hwloc does, takes
// milliseconds each on virtual machines.
#pragma once

#include <string>
#include <vector>

#include "topology/machine.hpp"

namespace hymn {

/// NVIDIA, as a vendor of PCI devices.
constexpr unsigned nvidia_vendor = 0x10de;

/// Whether a GPU of NVIDIA's is on the PCI bus. `root`: tests give another one than "".
bool has_gpu_on_bus(const std::string& root = "");

/// The network interfaces that stand for devices of their own, by PCI address and name, where they
/// are on `machine`, whose processors are known. Without their bandwidths.
std::vector<Nic> list_nics(const Machine& machine, const std::string& root = "");

}  // namespace hymn
