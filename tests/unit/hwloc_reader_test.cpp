// Machines read through hwloc: this one, the boxes of tests/fixtures, synthetic ones, broken ones.
#include <gmock/gmock.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/sanitizers.hpp"
#include "hymn/error.hpp"
#include "topology/read_machine.hpp"

namespace hymn::test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string path_of(const std::string& box) { return HYMN_BOXES "/" + box; }
Machine box(const std::string& name) { return read_machine_file(path_of(name)); }

std::string text_of(const std::string& name) {
  std::ifstream file(path_of(name));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// The kinds of all links from one GPU.
std::vector<std::string> kinds_from(const Machine& machine, std::size_t gpu) {
  std::vector<std::string> kinds;
  for (std::size_t to = 0; to < machine.gpus.size(); ++to) {
    kinds.emplace_back(to_string(machine.link(gpu, to).kind));
  }
  return kinds;
}

/// Runs `read`, which must fail, with nothing on stderr, and gives the error's text.
template <typename Read>
std::string error_of(Read read) {
  testing::internal::CaptureStderr();
  std::string text = "no error";
  try {
    read();
  } catch (const ConfigError& error) {
    text = error.what();
    EXPECT_FALSE(error.context().remedy.empty()) << text;
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  return text;
}

// hwloc is told in the environment to leave its plugins.
TEST(ThisMachine, LeavesTheEnvironmentAsItWas) {
  char** const before = environ;
  read_this_machine();
  EXPECT_EQ(environ, before);
  EXPECT_EQ(std::getenv("HWLOC_PLUGINS_PATH"), nullptr);
}

TEST(ThisMachine, IsRead) {
  const Machine machine = read_this_machine();
  EXPECT_NO_THROW(check_machine(machine));
  EXPECT_EQ(machine.source, "this host");
  EXPECT_FALSE(machine.name.empty());
  EXPECT_FALSE(machine.packages.empty());
  EXPECT_FALSE(machine.numa_nodes.empty());
  EXPECT_FALSE(machine.cores.empty());
  EXPECT_GT(machine.memory.total_bytes, 0u);
  const CpuSet mine = CpuSet::of_this_thread();
  EXPECT_TRUE(machine.allowed_cpus.includes(mine)) << machine.allowed_cpus.to_string();
  for (const int cpu : mine.to_vector()) {
    EXPECT_GE(machine.core_of(cpu), 0);
    EXPECT_GE(machine.package_of(cpu), 0);
  }
  EXPECT_EQ(fingerprint(machine), fingerprint(read_this_machine()));
}

TEST(ThisMachine, IsTheSameSeenFromOneBoundThread) {
  const Machine before = read_this_machine();
  cpu_set_t all;
  CPU_ZERO(&all);
  ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(CpuSet::of_this_thread().first()), &one);
  ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  const Machine bound = read_this_machine();
  ASSERT_EQ(sched_setaffinity(0, sizeof all, &all), 0);
  EXPECT_EQ(bound.cpus, before.cpus);
  EXPECT_EQ(fingerprint(bound), fingerprint(before));
}

TEST(Boxes, CpusOnly) {
  const Machine machine = box("cpu_2x2.xml");
  EXPECT_EQ(machine.name, "cpu_2x2");
  EXPECT_EQ(machine.source, "xml cpu_2x2.xml");
  ASSERT_EQ(machine.packages.size(), 2u);
  EXPECT_EQ(machine.packages[1].model, "Example CPU 9000");
  ASSERT_EQ(machine.numa_nodes.size(), 4u);
  EXPECT_EQ(machine.numa_nodes[2].package, 1);
  EXPECT_EQ(machine.numa_nodes[2].cpus.to_string(), "8-11");
  EXPECT_EQ(machine.numa_nodes[2].memory_bytes, std::uint64_t{64} << 30);
  EXPECT_EQ(machine.memory.total_bytes, std::uint64_t{256} << 30);
  ASSERT_EQ(machine.cores.size(), 16u);
  EXPECT_EQ(machine.cores[9].numa, 2);
  EXPECT_EQ(machine.caches.size(), 4u + 16u);
  EXPECT_EQ(machine.caches[0], (CacheGroup{3, 32u << 20, CpuSet::range(0, 3)}));
  ASSERT_EQ(machine.nics.size(), 2u);
  EXPECT_EQ(machine.nics[1].name, "mlx5_1");
  EXPECT_EQ(machine.nics[1].package, 1);
  EXPECT_EQ(machine.nics[1].numa, -1) << "a package has two nodes";
  EXPECT_EQ(machine.nics[1].pci, PciAddress::parse("0000:71:00.0"));
  EXPECT_THAT(machine.gpus, IsEmpty());
  EXPECT_THAT(machine.remarks, IsEmpty());
}

TEST(Boxes, GpusBehindNvswitches) {
  const Machine machine = box("nvswitch8.xml");
  ASSERT_EQ(machine.gpus.size(), 8u) << "the switches are none";
  for (std::size_t from = 0; from < 8; ++from) {
    EXPECT_EQ(machine.gpus[from].index, static_cast<int>(from));
    EXPECT_EQ(machine.gpus[from].package, from < 4 ? 0 : 1);
    for (std::size_t to = 0; to < 8; ++to) {
      if (from == to) continue;
      EXPECT_EQ(machine.link(from, to), (GpuLink{GpuLinkKind::nvswitch, 450e9, std::nullopt}));
    }
  }
  EXPECT_EQ(machine.gpus[2].name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(machine.gpus[2].uuid, "GPU-00000002-0000-4000-8000-000000000031");
  EXPECT_EQ(machine.gpus[2].pci, PciAddress::parse("31:00.0"));
  EXPECT_EQ(machine.gpus[2].memory_bytes, std::uint64_t{80} << 30);
}

TEST(Boxes, HybridCube) {
  const Machine machine = box("hybrid_cube8.xml");
  ASSERT_EQ(machine.gpus.size(), 8u);
  EXPECT_THAT(kinds_from(machine, 0), ElementsAre("self", "nvlink", "nvlink", "nvlink", "nvlink",
                                                  "system", "system", "system"));
  EXPECT_EQ(machine.link(0, 1).bandwidth, 25e9);
  EXPECT_EQ(machine.link(0, 3).bandwidth, 50e9);
  EXPECT_EQ(machine.link(0, 5).bandwidth, 15.754e9) << "through PCIe";
  for (std::size_t gpu = 0; gpu < 8; ++gpu) {
    double sum = 0;
    for (std::size_t to = 0; to < 8; ++to) {
      if (machine.link(gpu, to).kind == GpuLinkKind::nvlink) sum += machine.link(gpu, to).bandwidth;
    }
    EXPECT_EQ(sum, 6 * 25e9) << "GPU " << gpu << " has six links";
  }
}

TEST(Boxes, PcieOnly) {
  const Machine machine = box("pcie4.xml");
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_THAT(kinds_from(machine, 0), ElementsAre("self", "pcie_switch", "system", "system"));
  EXPECT_THAT(kinds_from(machine, 3), ElementsAre("system", "system", "pcie_switch", "self"));
  EXPECT_EQ(machine.link(0, 1).bandwidth, 31.508e9);
  EXPECT_FALSE(machine.link(0, 1).peer_access) << "hwloc does not know";
}

TEST(Boxes, OneGpu) {
  const Machine machine = box("one_gpu.xml");
  ASSERT_EQ(machine.gpus.size(), 1u);
  EXPECT_EQ(machine.gpus[0].numa, 0);
  EXPECT_THAT(kinds_from(machine, 0), ElementsAre("self"));
}

TEST(Boxes, WithoutPeerAccess) {
  const Machine machine = box("no_p2p4.json");
  ASSERT_EQ(machine.gpus.size(), 4u);
  EXPECT_EQ(machine.link(0, 1).peer_access, true);
  EXPECT_EQ(machine.link(0, 2).peer_access, false);
}

TEST(Boxes, ThatGrantOnlySomeCpus) {
  std::string xml = text_of("pcie4.xml");
  const std::string all = "allowed_cpuset=\"0x000000ff\"";
  const std::size_t at = xml.find(all);
  ASSERT_NE(at, std::string::npos);
  xml.replace(at, all.size(), "allowed_cpuset=\"0x0000000c\"");
  const Machine machine = read_xml(xml, "edited");
  EXPECT_EQ(machine.allowed_cpus.to_string(), "2-3");
  EXPECT_EQ(machine.cpus.to_string(), "0-7") << "the machine is described in full";
}

TEST(Synthetic, IsRead) {
  const Machine machine = read_synthetic("pack:2 numa:1 l3:1 core:4 pu:2");
  EXPECT_EQ(machine.source, "synthetic pack:2 numa:1 l3:1 core:4 pu:2");
  EXPECT_EQ(machine.packages.size(), 2u);
  EXPECT_EQ(machine.cores.size(), 8u);
  EXPECT_EQ(machine.cores[5].cpus.to_string(), "10-11");
  EXPECT_EQ(machine.cpus.count(), 16);
  EXPECT_EQ(machine.cpus, machine.allowed_cpus);
}

TEST(Synthetic, WithoutPackagesAndCoresHasOneAndMany) {
  const Machine machine = read_synthetic("numa:1 pu:4");
  EXPECT_EQ(machine.packages.size(), 1u);
  EXPECT_EQ(machine.cores.size(), 4u);
  EXPECT_EQ(machine.package_of(3), 0);
}

TEST(Synthetic, NonsenseIsRefused) {
  for (const char* text : {"", "foo", "pack:", "pack:0", "core:-1", "pu:4 core:2", "pack:2:2"}) {
    EXPECT_THAT(error_of([&] { read_synthetic(text); }), HasSubstr("hwloc")) << text;
  }
  for (const char* text : {"pack:1000000 core:1000", "pu:99999999999999999999999"}) {
    EXPECT_THAT(error_of([&] { read_synthetic(text); }), HasSubstr("asks for more than")) << text;
  }
}

struct Bad {
  const char* name;
  const char* file;
  const char* text;
};
class BrokenBox : public testing::TestWithParam<Bad> {};

TEST_P(BrokenBox, IsRefusedByName) {
  const std::string error =
      error_of([&] { read_machine_file(path_of("broken/") + GetParam().file); });
  EXPECT_THAT(error, HasSubstr(GetParam().file));
  EXPECT_THAT(error, HasSubstr(GetParam().text));
}

const Bad bad_boxes[] = {
    {"Truncated", "truncated.xml", "hwloc refuses it"},
    {"Format3", "format_3.xml", "its format is 3.0"},
    {"NoNuma", "no_numa.xml", "hwloc refuses it"},
    {"NoCpus", "no_cpus.xml", "hwloc refuses it"},
    {"NotAMachine", "not_a_machine.xml", "not an XML description of a machine"},
    {"SameGpuTwice", "same_gpu_twice.xml", "GPUs 0 and 1 are the same"},
    {"EndlessCpus", "endless_cpus.xml", "CPUs are not numbered"},
};
INSTANTIATE_TEST_SUITE_P(All, BrokenBox, testing::ValuesIn(bad_boxes),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(OddBoxes, AsymmetricNvlinksTakeTheLowerValue) {
  const Machine machine = box("broken/asymmetric_nvlink.xml");
  EXPECT_EQ(machine.link(0, 1).kind, GpuLinkKind::pcie_switch) << "a link one way is none";
  EXPECT_EQ(machine.link(2, 0).bandwidth, 25e9);
  EXPECT_EQ(machine.link(0, 2).bandwidth, 25e9);
  EXPECT_THAT(machine.remarks, ElementsAre(HasSubstr("differs by direction")));
}

TEST(OddBoxes, DamagedNvlinksAreLeftOut) {
  const Machine machine = box("broken/damaged_nvlink.xml");
  EXPECT_EQ(machine.link(0, 3).kind, GpuLinkKind::host_bridge);
  EXPECT_THAT(machine.remarks, ElementsAre(HasSubstr("damaged")));
}

TEST(OddBoxes, GpusWithoutPciAreKept) {
  const Machine machine = box("broken/gpus_without_pci.xml");
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_FALSE(machine.gpus[0].pci);
  EXPECT_EQ(machine.gpus[0].name, "NVIDIA L40S");
  EXPECT_EQ(machine.link(0, 1).kind, GpuLinkKind::host_bridge);
  EXPECT_EQ(machine.remarks.size(), 2u);
  EXPECT_THAT(machine.remarks, Each(HasSubstr("no PCI address")));
}

/// Nobody promises what hwloc makes of damage; but it is an error or a sound machine, and silent.
void survive(const std::string& xml) {
  testing::internal::CaptureStderr();
  try {
    check_machine(read_xml(xml, "damaged"));
  } catch (const ConfigError&) {
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(Damage, ThatCrashesHwlocDoesNotCrashUs) {
  for (const char* name : {"lost_mask.xml", "entities.xml", "no_numa.xml"}) {
    SCOPED_TRACE(name);
    survive(text_of(std::string("broken/") + name));
  }
}

TEST(Damage, OfAnyLineIsSurvived) {
  const std::string xml = text_of("one_gpu.xml");
  for (std::size_t begin = 0; begin < xml.size();) {
    const std::size_t end = xml.find('\n', begin) + 1;
    SCOPED_TRACE(xml.substr(begin, end - begin));
    survive(std::string(xml).erase(begin, end - begin));
    survive(std::string(xml).insert(begin, xml.substr(begin, end - begin)));
    begin = end;
  }
}

TEST(Damage, OfAnyMaskIsSurvived) {
  const std::string xml = text_of("one_gpu.xml");
  const std::string mask = "set=\"0x";
  const std::size_t step = sanitized ? 500 : mask.size();
  for (std::size_t at = 0; (at = xml.find(mask, at)) != std::string::npos; at += step) {
    SCOPED_TRACE(at);
    survive(std::string(xml).replace(at, 3, "sat"));
    survive(std::string(xml).insert(at + mask.size(), "f...f"));
  }
}

class Files : public testing::Test {
 protected:
  Files() : folder_(testing::TempDir() + "hymn_files_" + std::to_string(getpid())) {
    std::filesystem::create_directory(folder_);
  }
  ~Files() override { std::filesystem::remove_all(folder_); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  std::string folder_;
};

TEST_F(Files, ThatCannotBeReadAreNamed) {
  const auto error = [](const std::string& path) {
    return error_of([&] { read_machine_file(path); });
  };
  EXPECT_THAT(error(folder_ + "/nothing"), HasSubstr("No such file"));
  EXPECT_THAT(error(folder_), HasSubstr("not a regular file"));
  EXPECT_THAT(error("/dev/zero"), HasSubstr("not a regular file"));
  EXPECT_THAT(error(write("empty", "")), HasSubstr("is empty"));
  EXPECT_THAT(error(write("blank", " \n\t\n")), HasSubstr("is blank"));
  EXPECT_THAT(error(write("text", "pack:2 core:4")), HasSubstr("neither XML nor JSON"));
  const std::string fifo = folder_ + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(error(fifo), HasSubstr("not a regular file"));
}

TEST_F(Files, ThatAreTooLargeAreNotRead) {
  const std::string path = write("large.xml", "<topology version=\"2.0\">");
  ASSERT_EQ(truncate(path.c_str(), (off_t{64} << 20) + 1), 0);
  EXPECT_THAT(error_of([&] { read_machine_file(path); }), HasSubstr("67108865 bytes"));
}

TEST_F(Files, KindIsToldByTheirFirstCharacter) {
  const Machine machine = box("pcie4.xml");
  EXPECT_EQ(read_machine_file(write("a", "\n " + to_json(machine))), machine);
  EXPECT_EQ(read_machine_file(write("pcie4.xml", text_of("pcie4.xml"))), machine);
}

}  // namespace
}  // namespace hymn::test
