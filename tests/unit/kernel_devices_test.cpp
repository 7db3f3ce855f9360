// Devices by the kernel's files, read from trees like those of the kernel, and from this host.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdarg>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <tuple>

#include "topology/hwloc_view.hpp"
#include "topology/kernel_devices.hpp"
#include "topology/read_machine.hpp"

namespace {

// Files of devices' own that have been opened: each asks its device.
std::atomic<int> asked_devices{0};

}  // namespace

// hwloc's calls pass here.
extern "C" __attribute__((visibility("default"))) int openat(int folder, const char* path,
                                                             int flags, ...) {
  std::va_list arguments;
  va_start(arguments, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(arguments, mode_t) : 0;
  va_end(arguments);
  const std::string_view name(path);
  if (name.find("bus/pci/devices") != std::string_view::npos && name.ends_with("/config"))
    ++asked_devices;
  return static_cast<int>(::syscall(SYS_openat, folder, path, flags, mode));
}

namespace hymn::test {
namespace {

class KernelDevices : public testing::Test {
 protected:
  KernelDevices() : root_(testing::TempDir() + "hymn_devices_" + std::to_string(getpid())) {
    std::filesystem::create_directories(root_);
    machine_.cpus = CpuSet::range(0, 7);
    machine_.packages = {{0, CpuSet::range(0, 3), ""}, {1, CpuSet::range(4, 7), ""}};
    machine_.numa_nodes.resize(2);
    machine_.numa_nodes[0].cpus = CpuSet::range(0, 3);
    machine_.numa_nodes[1].cpus = CpuSet::range(4, 7);
  }
  ~KernelDevices() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void add_device(const std::string& address, const std::string& vendor, const std::string& kind,
                  const std::string& cpus) const {
    const std::string folder = "/sys/bus/pci/devices/" + address;
    write(folder + "/vendor", vendor + "\n");
    write(folder + "/class", kind + "\n");
    write(folder + "/local_cpulist", cpus + "\n");
  }
  void add_interface(const std::string& kind, const std::string& name,
                     const std::string& target) const {
    const std::string folder = root_ + "/sys/class/" + kind;
    std::filesystem::create_directories(folder);
    std::filesystem::create_symlink(target, std::filesystem::path(folder + "/" + name));
  }

  std::string root_;
  Machine machine_;
};

TEST_F(KernelDevices, NicsAreThoseWithADeviceOfTheirOwn) {
  add_device("0000:81:00.0", "0x15b3", "0x020700", "4-7");
  add_device("0000:01:00.0", "0x8086", "0x020000", "0-3");
  add_interface("net", "ib0", "../../devices/pci0000:80/0000:80:01.0/0000:81:00.0/net/ib0");
  add_interface("net", "eno1", "../../devices/pci0000:00/0000:01:00.0/net/eno1");
  add_interface("net", "lo", "../../devices/virtual/net/lo");
  add_interface("net", "usb0", "../../devices/pci0000:00/0000:00:14.0/usb1/1-2/net/usb0");
  add_interface("infiniband", "mlx5_0",
                "../../devices/pci0000:80/0000:80:01.0/0000:81:00.0/infiniband/mlx5_0");
  const auto nics = list_nics(machine_, root_);
  ASSERT_EQ(nics.size(), 3u);
  EXPECT_EQ(nics[0].name, "eno1");
  EXPECT_EQ(nics[0].pci, PciAddress::parse("0000:01:00.0"));
  EXPECT_EQ(nics[0].package, 0);
  EXPECT_EQ(nics[1].name, "ib0");
  EXPECT_EQ(nics[1].package, 1);
  EXPECT_EQ(nics[1].numa, 1);
  EXPECT_EQ(nics[2].name, "mlx5_0");
  EXPECT_EQ(nics[2].pci, PciAddress::parse("0000:81:00.0"));
}

TEST_F(KernelDevices, OneThatIsNearToAllProcessorsIsOfNoPackage) {
  add_device("0000:01:00.0", "0x8086", "0x020000", "0-7");
  add_interface("net", "eth0", "../../devices/pci0000:00/0000:01:00.0/net/eth0");
  add_interface("net", "eth1", "../../devices/platform/soc/net/eth1");
  const auto nics = list_nics(machine_, root_);
  ASSERT_EQ(nics.size(), 2u);
  for (const Nic& nic : nics) EXPECT_EQ(nic.package, -1) << nic.name;
}

TEST_F(KernelDevices, AGpuIsADisplayDeviceOfNvidias) {
  EXPECT_FALSE(has_gpu_on_bus(root_));
  add_device("0000:01:00.0", "0x10de", "0x020000", "0-3");
  add_device("0000:02:00.0", "0x1002", "0x030000", "0-3");
  EXPECT_FALSE(has_gpu_on_bus(root_));
  add_device("0000:03:00.0", "0x10de", "0x030200", "0-3");
  EXPECT_TRUE(has_gpu_on_bus(root_));
}

TEST(ThisHostsDevices, AreThoseThatHwlocSees) {
  const HwlocView all = view_of_this_host(true);
  const HwlocView processors = view_of_this_host(false);
  EXPECT_TRUE(processors.machine.nics.empty());
  EXPECT_EQ(processors.machine.cores, all.machine.cores);
  EXPECT_EQ(processors.machine.caches, all.machine.caches);
  auto seen = all.machine.nics;
  std::sort(seen.begin(), seen.end(), [](const Nic& a, const Nic& b) {
    return std::tie(a.pci, a.name) < std::tie(b.pci, b.name);
  });
  EXPECT_EQ(list_nics(processors.machine), seen);
}

TEST(ThisHostsDevices, AreNotAskedThemselvesWhereThereIsNoGpu) {
  if (has_gpu_on_bus()) GTEST_SKIP() << "there is one";
  asked_devices = 0;
  const Machine machine = read_this_machine();
  if (!machine.gpus.empty()) GTEST_SKIP() << "there is one";
  EXPECT_EQ(asked_devices, 0) << "milliseconds each, where machines are virtual";
  view_of_this_host(true);
  if (std::filesystem::is_empty("/sys/bus/pci/devices")) GTEST_SKIP() << "there are none";
  EXPECT_GT(asked_devices, 0) << "this test does not see it";
}

}  // namespace
}  // namespace hymn::test
