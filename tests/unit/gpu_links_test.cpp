// Links between GPUs, worked out from matrices and trees.
#include "topology/gpu_links.hpp"

#include <gmock/gmock.h>

#include <limits>

namespace hymn::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Machine machine_with(int gpus) {
  Machine machine;
  machine.cpus = machine.allowed_cpus = CpuSet::range(0, 3);
  for (int i = 0; i < gpus; ++i) {
    Gpu gpu;
    gpu.index = i;
    gpu.name = "gpu";
    gpu.uuid = "GPU-" + std::to_string(i);
    gpu.pci = PciAddress{0, static_cast<std::uint8_t>(i + 1), 0, 0};
    machine.gpus.push_back(gpu);
  }
  return machine;
}

constexpr int port = NvlinkMatrix::switch_port;
constexpr int other = NvlinkMatrix::other;

TEST(Nvlinks, AreTakenFromRowsInAnyOrder) {
  Machine machine = machine_with(3);
  // GPU 2, GPU 0, a processor, GPU 1; the diagonal and the processor do not count.
  add_nvlinks(machine, {{2, 0, other, 1},
                        {1e12, 5e9, 9e9, 0,    //
                         5e9, 1e12, 9e9, 7e9,  //
                         9e9, 9e9, 1e12, 9e9,  //
                         0, 7e9, 9e9, 1e12}});
  EXPECT_EQ(machine.link(0, 2), (GpuLink{GpuLinkKind::nvlink, 5e9, std::nullopt}));
  EXPECT_EQ(machine.link(2, 0), machine.link(0, 2));
  EXPECT_EQ(machine.link(0, 1).bandwidth, 7e9);
  EXPECT_EQ(machine.link(1, 2).kind, GpuLinkKind::unknown);
  EXPECT_EQ(machine.link(1, 1), (GpuLink{GpuLinkKind::self, 0, true}));
  EXPECT_THAT(machine.remarks, IsEmpty());
}

TEST(Nvlinks, ThroughSwitchesAreAsWideAsTheNarrowerGpu) {
  Machine machine = machine_with(3);
  // GPUs 0 and 1 have 5 + 6 and 5 + 1 to two ports; GPU 2 has none.
  add_nvlinks(machine, {{0, 1, 2, port, port}, {1e12, 0,    0,    5e9,  6e9,  //
                                                0,    1e12, 0,    5e9,  1e9,  //
                                                0,    0,    1e12, 0,    0,    //
                                                5e9,  5e9,  0,    1e12, 0,    //
                                                6e9,  1e9,  0,    0,    1e12}});
  EXPECT_EQ(machine.link(0, 1), (GpuLink{GpuLinkKind::nvswitch, 6e9, std::nullopt}));
  EXPECT_EQ(machine.link(1, 0), machine.link(0, 1));
  EXPECT_EQ(machine.link(0, 2).kind, GpuLinkKind::unknown);
}

TEST(Nvlinks, ThatDifferByDirectionAreAsWideAsTheNarrower) {
  Machine machine = machine_with(2);
  add_nvlinks(machine, {{0, 1}, {0, 5e9, 3e9, 0}});
  EXPECT_EQ(machine.link(0, 1).bandwidth, 3e9);
  EXPECT_EQ(machine.link(1, 0).bandwidth, 3e9);
  EXPECT_THAT(machine.remarks, ElementsAre(HasSubstr("differs by direction")));
  machine = machine_with(2);
  add_nvlinks(machine, {{0, 1}, {0, 5e9, 0, 0}});
  EXPECT_EQ(machine.link(0, 1).kind, GpuLinkKind::unknown) << "only one way";
  EXPECT_EQ(machine.link(1, 0).kind, GpuLinkKind::unknown) << "only one way";
}

TEST(Nvlinks, OfDamagedMatricesAreLeftOut) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const NvlinkMatrix& matrix :
       {NvlinkMatrix{{0, 1}, {0, 1e30, 5e9, 0}}, NvlinkMatrix{{0, 1}, {0, nan, 5e9, 0}},
        NvlinkMatrix{{0, 1}, {0, -1, 5e9, 0}}, NvlinkMatrix{{0, 1}, {0, 5e9}}}) {
    Machine machine = machine_with(2);
    add_nvlinks(machine, matrix);
    EXPECT_EQ(machine.link(0, 1).kind, GpuLinkKind::unknown);
    EXPECT_THAT(machine.remarks, ElementsAre(HasSubstr("damaged")));
  }
}

TEST(PcieLinks, FollowTheTree) {
  Machine machine = machine_with(5);
  for (std::size_t i = 0; i < 5; ++i) machine.gpus[i].package = i < 4 ? 0 : 1;
  const std::vector<GpuSite> sites = {
      {{1, 2, 3}, 16e9}, {{1, 2, 4}, 8e9}, {{1, 5}, 16e9}, {{6, 7}, 0}, {{8, 9}, 16e9}};
  add_pcie_links(machine, sites);
  EXPECT_EQ(machine.link(0, 1), (GpuLink{GpuLinkKind::pcie_switch, 8e9, std::nullopt}));
  EXPECT_EQ(machine.link(0, 2).kind, GpuLinkKind::host_bridge) << "below one host bridge";
  EXPECT_EQ(machine.link(0, 3).kind, GpuLinkKind::host_bridge) << "at one package";
  EXPECT_EQ(machine.link(0, 3).bandwidth, 0) << "one of them is not known";
  EXPECT_EQ(machine.link(0, 4), (GpuLink{GpuLinkKind::system, 16e9, std::nullopt}));
  machine.packages = {{0, CpuSet::range(0, 1), ""}, {1, CpuSet::range(2, 3), ""}};
  EXPECT_NO_THROW(check_machine(machine));
}

TEST(PcieLinks, OfGpusAtUnknownPlacesAreUnknown) {
  Machine machine = machine_with(2);
  add_pcie_links(machine, std::vector<GpuSite>(2));
  EXPECT_EQ(machine.link(0, 1).kind, GpuLinkKind::unknown);
  machine.gpus[0].numa = machine.gpus[1].numa = 0;
  add_pcie_links(machine, std::vector<GpuSite>(2));
  EXPECT_EQ(machine.link(0, 1).kind, GpuLinkKind::host_bridge) << "at one NUMA node";
}

TEST(PcieLinks, DoNotReplaceNvlinks) {
  Machine machine = machine_with(2);
  add_nvlinks(machine, {{0, 1}, {0, 5e9, 5e9, 0}});
  add_pcie_links(machine, std::vector<GpuSite>(2, GpuSite{{1, 2}, 16e9}));
  EXPECT_EQ(machine.link(0, 1), (GpuLink{GpuLinkKind::nvlink, 5e9, std::nullopt}));
}

/// The bus shows three GPUs, the driver two of them, in another order.
TEST(ProbedGpus, TakeTheirPlaceFromTheBus) {
  Machine machine = machine_with(3);
  machine.packages = {{0, CpuSet::range(0, 1), ""}, {1, CpuSet::range(2, 3), ""}};
  machine.numa_nodes = {{4, 0, CpuSet::range(0, 1), 0}, {8, 1, CpuSet::range(2, 3), 0}};
  for (std::size_t i = 0; i < 3; ++i) machine.gpus[i].numa = machine.gpus[i].package = i == 2;
  GpuInventory inventory;
  inventory.gpus = {machine.gpus[2], machine.gpus[0]};
  for (std::size_t i = 0; i < 2; ++i) {
    inventory.gpus[i].index = static_cast<int>(i);
    inventory.gpus[i].name = "probed";
    inventory.gpus[i].numa = 8;  // as the kernel numbers it, and wrong for one of them
    inventory.gpus[i].package = -1;
  }
  inventory.links.resize(4);
  inventory.links[1].peer_access = false;
  inventory.remarks = {"a remark"};
  merge_probed_gpus(machine, {{{1, 2}, 8e9}, {{1, 3}, 8e9}, {{4, 5}, 16e9}}, inventory);
  ASSERT_EQ(machine.gpus.size(), 2u);
  EXPECT_EQ(machine.gpus[0].name, "probed");
  EXPECT_EQ(machine.gpus[0].numa, 1);
  EXPECT_EQ(machine.gpus[0].package, 1);
  EXPECT_EQ(machine.gpus[1].numa, 0);
  EXPECT_EQ(machine.link(0, 1), (GpuLink{GpuLinkKind::system, 8e9, false}));
  EXPECT_THAT(machine.remarks, ElementsAre("a remark"));
  EXPECT_NO_THROW(check_machine(machine));
}

TEST(ProbedGpus, ThatTheBusDoesNotShowKeepTheDriversNode) {
  Machine machine = machine_with(0);
  machine.numa_nodes = {{4, -1, CpuSet::range(0, 1), 0}, {8, -1, CpuSet::range(2, 3), 0}};
  GpuInventory inventory;
  inventory.gpus = machine_with(2).gpus;
  inventory.gpus[0].numa = 8;
  inventory.gpus[1].numa = 5;
  merge_probed_gpus(machine, {}, inventory);
  EXPECT_EQ(machine.gpus[0].numa, 1);
  EXPECT_EQ(machine.gpus[1].numa, -1);
  EXPECT_NO_THROW(check_machine(machine));
}

TEST(ProbedGpus, ThatNoDriverOffersAreRemarkedOn) {
  Machine machine = machine_with(2);
  merge_probed_gpus(machine, std::vector<GpuSite>(2), {});
  EXPECT_THAT(machine.gpus, IsEmpty());
  EXPECT_THAT(machine.gpu_links, IsEmpty());
  EXPECT_THAT(machine.remarks, ElementsAre(HasSubstr("2 NVIDIA GPU(s) on the PCI bus")));
}

}  // namespace
}  // namespace hymn::test
