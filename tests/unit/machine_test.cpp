// Machines: what they must hold, what their fingerprint covers.
#include "topology/machine.hpp"

#include <gmock/gmock.h>

#include <functional>
#include <limits>

#include "hymn/error.hpp"

namespace hymn::test {
namespace {

using testing::HasSubstr;

/// Two packages of two cores, a GPU and a NIC at each.
Machine good_machine() {
  Machine machine;
  machine.name = "box";
  machine.source = "test";
  machine.cpus = CpuSet::range(0, 3);
  machine.allowed_cpus = CpuSet::range(0, 2);
  for (int i = 0; i < 2; ++i) {
    const CpuSet cpus = CpuSet::range(2 * i, 2 * i + 1);
    machine.packages.push_back({i, cpus, "cpu"});
    machine.numa_nodes.push_back({i, i, cpus, 1u << 30});
    machine.caches.push_back({3, 1u << 20, cpus});
    Gpu gpu;
    gpu.index = i;
    gpu.name = "gpu";
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.pci = PciAddress{0, static_cast<std::uint8_t>(i + 1), 0, 0};
    gpu.numa = gpu.package = i;
    machine.gpus.push_back(gpu);
    machine.nics.push_back({"eth" + std::to_string(i), std::nullopt, i, i, 1e9});
  }
  for (int cpu = 0; cpu < 4; ++cpu) {
    machine.cores.push_back({cpu, cpu / 2, cpu / 2, CpuSet::range(cpu, cpu)});
  }
  const GpuLink self{GpuLinkKind::self, 0, true};
  const GpuLink link{GpuLinkKind::nvlink, 25e9, std::nullopt};
  machine.gpu_links = {self, link, link, self};
  return machine;
}

TEST(PciAddress, ReadsTheThreeSpellings) {
  const PciAddress address{0, 0x18, 0x1f, 7};
  EXPECT_EQ(PciAddress::parse("0000:18:1f.7"), address);
  EXPECT_EQ(PciAddress::parse("00000000:18:1F.7"), address);
  EXPECT_EQ(PciAddress::parse("18:1f.7"), address);
  EXPECT_EQ(address.to_string(), "0000:18:1f.7");
  const PciAddress far{0x10000, 0xff, 0, 0};
  EXPECT_EQ(PciAddress::parse(far.to_string()), far);
}

TEST(PciAddress, RefusesOtherTexts) {
  for (const char* text : {"", "18", "18:00", "18:00.", "18:20.0", "18:00.8", "1:00.0", "g8:00.0",
                           "000:18:00.0", "000000000:18:00.0", "0000:18:00.0 ", "0000:18-00.0",
                           "-000:18:00.0", "0000:0000:18:00.0", "0000:+8:00.0"}) {
    EXPECT_FALSE(PciAddress::parse(text)) << text;
  }
}

TEST(GpuLinkKind, IsReadAsItIsWritten) {
  for (auto kind = GpuLinkKind::self; kind <= GpuLinkKind::unknown;
       kind = static_cast<GpuLinkKind>(static_cast<int>(kind) + 1)) {
    EXPECT_EQ(parse_gpu_link_kind(to_string(kind)), kind) << to_string(kind);
  }
  EXPECT_FALSE(parse_gpu_link_kind("NVLINK"));
  EXPECT_FALSE(parse_gpu_link_kind(""));
}

TEST(MemoryLimits, LeaveWhatTheTighterOneLeaves) {
  MemoryLimits limits;
  limits.total_bytes = 100;
  EXPECT_EQ(limits.usable_bytes(), 100u) << "nothing else is known";
  limits.available_bytes = 60;
  EXPECT_EQ(limits.usable_bytes(), 60u);
  limits.cgroup_max_bytes = 80;
  EXPECT_EQ(limits.usable_bytes(), 60u);
  limits.cgroup_used_bytes = 50;
  EXPECT_EQ(limits.usable_bytes(), 30u);
  limits.cgroup_used_bytes = 90;
  EXPECT_EQ(limits.usable_bytes(), 0u) << "more used than granted";
}

TEST(Machine, FindsWhatACpuBelongsTo) {
  const Machine machine = good_machine();
  EXPECT_EQ(machine.core_of(3), 3);
  EXPECT_EQ(machine.numa_of(3), 1);
  EXPECT_EQ(machine.package_of(1), 0);
  EXPECT_EQ(machine.core_of(4), -1);
  EXPECT_EQ(machine.numa_of(-1), -1);
}

struct Fault {
  const char* what;
  std::function<void(Machine&)> make;
  const char* text;  // that the error must hold
};

class BrokenMachine : public testing::TestWithParam<Fault> {};

TEST_P(BrokenMachine, IsRefusedAndTheFaultNamed) {
  Machine machine = good_machine();
  ASSERT_NO_THROW(check_machine(machine));
  GetParam().make(machine);
  try {
    check_machine(machine);
    ADD_FAILURE() << GetParam().what << " was accepted";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr(GetParam().text));
    EXPECT_THAT(error.what(), HasSubstr("box"));
  }
}

const Fault faults[] = {
    {"NoCpus", [](Machine& m) { m.cpus = {}; }, "no CPUs"},
    {"NoneAllowed", [](Machine& m) { m.allowed_cpus = {}; }, "none of its CPUs is allowed"},
    {"AllowedElsewhere", [](Machine& m) { m.allowed_cpus.add(9); }, "0-2,9 are allowed"},
    {"PackageBeyond", [](Machine& m) { m.packages[1].cpus.add(4); }, "package 1 has CPUs 2-4"},
    {"PackagesOverlap", [](Machine& m) { m.packages[0].cpus.add(2); }, "of which an earlier one"},
    {"CoreWithoutCpus", [](Machine& m) { m.cores[2].cpus = {}; }, "core 2 has no CPUs"},
    {"CoreInNoPackage", [](Machine& m) { m.cores[2].package = 2; }, "names package 2"},
    {"CoreInOtherPackage", [](Machine& m) { m.cores[2].package = 0; }, "package 0 does not have"},
    {"CoreInOtherNode", [](Machine& m) { m.cores[0].numa = 1; }, "NUMA node 1 does not have"},
    {"NodeInOtherPackage", [](Machine& m) { m.numa_nodes[0].package = 1; }, "NUMA node 0 has"},
    {"NegativeIndex", [](Machine& m) { m.numa_nodes[0].package = -2; }, "names package -2"},
    {"CacheOfNoLevel", [](Machine& m) { m.caches[0].level = 0; }, "level 0"},
    {"CacheOfNobody", [](Machine& m) { m.caches[1].cpus = {}; }, "cache 1 has no CPUs"},
    {"GpuAtNoNode", [](Machine& m) { m.gpus[1].numa = 7; }, "GPU 1 names NUMA node 7"},
    {"GpuTwice", [](Machine& m) { m.gpus[1].uuid = m.gpus[0].uuid; }, "GPUs 0 and 1 are the same"},
    {"AddressTwice",
     [](Machine& m) {
       m.gpus[1].uuid.clear();
       m.gpus[1].pci = m.gpus[0].pci;
     },
     "GPUs 0 and 1 are the same"},
    {"IndexTwice", [](Machine& m) { m.gpus[1].index = 0; }, "both have the index 0"},
    {"TooFewLinks", [](Machine& m) { m.gpu_links.pop_back(); }, "need 4 links, but there are 3"},
    {"LinkToItself", [](Machine& m) { m.link(0, 0).kind = GpuLinkKind::nvlink; }, "GPU 0 to GPU 0"},
    {"SelfElsewhere", [](Machine& m) { m.link(0, 1).kind = GpuLinkKind::self; }, "is \"self\""},
    {"LinkOneWay", [](Machine& m) { m.link(0, 1).kind = GpuLinkKind::system; }, "the other way"},
    {"NegativeBandwidth", [](Machine& m) { m.link(0, 1).bandwidth = -1; }, "bandwidth of -1"},
    {"NoBandwidth",
     [](Machine& m) { m.link(0, 1).bandwidth = std::numeric_limits<double>::quiet_NaN(); }, "nan"},
    {"NicAtNoPackage", [](Machine& m) { m.nics[0].package = 3; }, "NIC 0 names package 3"},
    {"NicTooFast",
     [](Machine& m) { m.nics[0].bandwidth = std::numeric_limits<double>::infinity(); }, "inf"},
};
INSTANTIATE_TEST_SUITE_P(All, BrokenMachine, testing::ValuesIn(faults),
                         [](const auto& test) { return std::string(test.param.what); });

TEST(CheckMachine, AllowsWhatMachinesReallyLack) {
  Machine machine = good_machine();
  for (Core& core : machine.cores) core.numa = -1;
  for (Gpu& gpu : machine.gpus) gpu.numa = -1;
  for (Nic& nic : machine.nics) nic.numa = -1;
  machine.numa_nodes.clear();
  EXPECT_NO_THROW(check_machine(machine)) << "no NUMA nodes";
  machine = good_machine();
  machine.numa_nodes.push_back({2, -1, {}, 1u << 30});
  EXPECT_NO_THROW(check_machine(machine)) << "memory without CPUs";
  machine.numa_nodes.push_back({3, 0, CpuSet::range(0, 1), 1u << 30});
  EXPECT_NO_THROW(check_machine(machine)) << "a second kind of memory at the same CPUs";
  machine.gpus[1].pci = machine.gpus[0].pci;
  EXPECT_NO_THROW(check_machine(machine)) << "slices of one GPU";
}

TEST(Fingerprint, IsTheSameForMachinesOfOneMake) {
  const Machine machine = good_machine();
  const std::string print = fingerprint(machine);
  EXPECT_EQ(print.size(), 16u);
  EXPECT_EQ(print.find_first_not_of("0123456789abcdef"), std::string::npos) << print;
  Machine twin = machine;
  twin.name = "other";
  twin.source = "elsewhere";
  twin.allowed_cpus = CpuSet::range(0, 0);
  twin.gpus[0].uuid = "GPU-else";
  twin.gpus[0].pci.reset();
  twin.nics[0].name = "ib0";
  twin.numa_nodes[0].memory_bytes += 4096;
  twin.memory.available_bytes = 1;
  twin.remarks.emplace_back("remark");
  EXPECT_EQ(fingerprint(twin), print);
}

TEST(Fingerprint, DiffersWhereAMachineDoes) {
  const std::function<void(Machine&)> changes[] = {
      [](Machine& m) { m.packages[0].model = "other cpu"; },
      [](Machine& m) { m.caches[0].size_bytes *= 2; },
      [](Machine& m) { m.cores.pop_back(); },
      [](Machine& m) { m.cores[0].numa = -1; },
      [](Machine& m) { m.numa_nodes.pop_back(); },
      [](Machine& m) { m.gpus[0].name = "other gpu"; },
      [](Machine& m) { m.gpus[0].package = 1; },
      [](Machine& m) { m.link(0, 1).bandwidth = 50e9; },
      [](Machine& m) { m.link(0, 1).peer_access = false; },
      [](Machine& m) { m.link(1, 0).kind = GpuLinkKind::system; },
      [](Machine& m) { m.nics[1].bandwidth = 2e9; },
  };
  const std::string print = fingerprint(good_machine());
  for (std::size_t i = 0; i < std::size(changes); ++i) {
    Machine machine = good_machine();
    changes[i](machine);
    EXPECT_NE(fingerprint(machine), print) << "change " << i;
  }
}

TEST(Fingerprint, DoesNotFollowTheSleepOfPcie) {
  Machine machine = good_machine();
  machine.link(0, 1).kind = machine.link(1, 0).kind = GpuLinkKind::system;
  const std::string print = fingerprint(machine);
  machine.link(0, 1).bandwidth = 4e9;
  EXPECT_EQ(fingerprint(machine), print);
}

}  // namespace
}  // namespace hymn::test
