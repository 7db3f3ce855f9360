// The probe of GPUs, asked through doubles of the driver and of NVML.
#include "topology/gpu_probe.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "tests/unit/fake_gpus.hpp"

namespace hymn::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const GpuLink& link(const GpuInventory& inventory, std::size_t from, std::size_t to) {
  return inventory.links.at(from * inventory.gpus.size() + to);
}

/// What must hold for whatever the drivers say: a machine can be made of it.
void check(const GpuInventory& inventory, const FakeBox& box) {
  Machine machine;
  machine.cpus = machine.allowed_cpus = CpuSet::range(0, 0);
  machine.gpus = inventory.gpus;
  machine.gpu_links = inventory.links;
  EXPECT_NO_THROW(check_machine(machine));
  EXPECT_EQ(box.sessions, 0) << "NVML is still initialised";
  EXPECT_EQ(box.calls_outside, 0);
}

GpuInventory probe(FakeBox& box) {
  const GpuInventory inventory = probe_gpus(functions_of(box));
  check(inventory, box);
  return inventory;
}

TEST(GpuProbe, TellsWhatAGpuIs) {
  FakeBox box = pcie_box(1);
  const GpuInventory inventory = probe(box);
  EXPECT_THAT(inventory.remarks, IsEmpty());
  EXPECT_EQ(inventory.driver_version, "580.95.05");
  EXPECT_EQ(inventory.cuda_driver, 13000);
  EXPECT_EQ(inventory.hidden_gpus, 0);
  Gpu expected;
  expected.index = 0;
  expected.name = "Test GPU 0";
  expected.uuid = "GPU-00000000-0000-0000-0000-000000000000";
  expected.pci = PciAddress::parse("0000:18:00.0");
  expected.memory_bytes = 80u << 20;
  expected.compute_major = 9;
  expected.compute_minor = 1;
  EXPECT_THAT(inventory.gpus, ElementsAre(expected));
}

TEST(GpuProbe, NvswitchJoinsAllAtFullWidth) {
  FakeBox box = nvswitch_box();
  const GpuInventory inventory = probe(box);
  ASSERT_EQ(inventory.gpus.size(), 8u);
  EXPECT_THAT(inventory.remarks, IsEmpty());
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(link(inventory, i, i).kind, GpuLinkKind::self);
    for (std::size_t j = 0; j < 8; ++j) {
      if (i == j) continue;
      EXPECT_EQ(link(inventory, i, j), (GpuLink{GpuLinkKind::nvswitch, 18 * 26562e6, true}))
          << i << " to " << j;
    }
  }
}

TEST(GpuProbe, HybridCubeHasPairsWithOneLinkTwoAndNone) {
  FakeBox box = hybrid_cube_box();
  box.levels.assign(8, std::vector<unsigned>(8, 50));
  box.peers.assign(8, std::vector<bool>(8, true));
  box.peers[0][5] = false;
  const GpuInventory inventory = probe(box);
  EXPECT_EQ(link(inventory, 0, 1), (GpuLink{GpuLinkKind::nvlink, 25781e6, true}));
  EXPECT_EQ(link(inventory, 0, 3), (GpuLink{GpuLinkKind::nvlink, 2 * 25781e6, true}));
  EXPECT_EQ(link(inventory, 4, 0), (GpuLink{GpuLinkKind::nvlink, 2 * 25781e6, true}));
  EXPECT_EQ(link(inventory, 0, 5), (GpuLink{GpuLinkKind::system, 0, false}));
  EXPECT_EQ(link(inventory, 5, 0), (GpuLink{GpuLinkKind::system, 0, true}));
  EXPECT_THAT(inventory.remarks, IsEmpty());
}

TEST(GpuProbe, PcieDistancesBecomeKinds) {
  FakeBox box = pcie_box(6);
  box.levels.assign(6, std::vector<unsigned>(6, 50));
  const std::vector<unsigned> levels = {0, 10, 20, 30, 40};
  for (std::size_t i = 0; i < levels.size(); ++i) {
    box.levels[0][i + 1] = box.levels[i + 1][0] = levels[i];
  }
  const GpuInventory inventory = probe(box);
  std::vector<GpuLinkKind> kinds;
  for (std::size_t i = 1; i < 6; ++i) kinds.push_back(link(inventory, 0, i).kind);
  EXPECT_THAT(kinds, ElementsAre(GpuLinkKind::pcie_switch, GpuLinkKind::pcie_switch,
                                 GpuLinkKind::pcie_switch, GpuLinkKind::host_bridge,
                                 GpuLinkKind::host_bridge));
  EXPECT_EQ(link(inventory, 1, 2).kind, GpuLinkKind::system);
}

TEST(GpuProbe, LevelsOfLaterVersionsAreUnknown) {
  FakeBox box = pcie_box(2);
  box.levels.assign(2, std::vector<unsigned>(2, 60));
  EXPECT_EQ(link(probe(box), 0, 1).kind, GpuLinkKind::unknown);
}

TEST(GpuProbe, LinksThatPeersCannotUseDoNotCount) {
  FakeBox box = nvswitch_box();
  for (FakeGpu& gpu : box.gpus) {
    gpu.links.assign(6, {FakeLink::unusable});
    gpu.links[1].end = FakeLink::down;
    gpu.links[2].end = FakeLink::to_processor;
  }
  EXPECT_EQ(link(probe(box), 0, 1).kind, GpuLinkKind::system);
  for (FakeGpu& gpu : box.gpus) gpu.links[5].end = FakeLink::to_switch;
  EXPECT_EQ(link(probe(box), 0, 1), (GpuLink{GpuLinkKind::nvswitch, 26562e6, true}));
}

TEST(GpuProbe, SpeedComesFromTheLinkItselfWhereThereIsNoCommonOne) {
  FakeBox box = nvswitch_box();
  box.common_speed = 0;
  box.own_speed = 50000;
  EXPECT_EQ(link(probe(box), 2, 3).bandwidth, 18 * 50e9);
  // A link whose speed nobody tells is still a link.
  box.own_speed = 0;
  EXPECT_EQ(link(probe(box), 2, 3), (GpuLink{GpuLinkKind::nvswitch, 18 * 20e9, true}));
}

TEST(GpuProbe, GpusAreNumberedAsCudaDoesAndMatchedByUuid) {
  FakeBox box = hybrid_cube_box();
  box.visible = {7, 3, 0};
  const GpuInventory inventory = probe(box);
  ASSERT_EQ(inventory.gpus.size(), 3u);
  EXPECT_EQ(inventory.hidden_gpus, 5);
  EXPECT_EQ(inventory.gpus[0].uuid, uuid_of(7));
  EXPECT_EQ(inventory.gpus[0].index, 0);
  EXPECT_EQ(link(inventory, 0, 1).bandwidth, 25781e6) << "GPUs 7 and 3";
  EXPECT_EQ(link(inventory, 1, 2).bandwidth, 2 * 25781e6) << "GPUs 3 and 0";
  EXPECT_EQ(link(inventory, 0, 2).kind, GpuLinkKind::system) << "GPUs 7 and 0";
}

TEST(GpuProbe, AllGpusMayBeHidden) {
  FakeBox box = nvswitch_box();
  box.visible = {};
  const GpuInventory inventory = probe(box);
  EXPECT_THAT(inventory.gpus, IsEmpty());
  EXPECT_THAT(inventory.links, IsEmpty());
  EXPECT_EQ(inventory.hidden_gpus, 8);
}

TEST(GpuProbe, SlicesHaveNoNvlinkAndOneRemark) {
  FakeBox box = nvswitch_box();
  for (FakeGpu& gpu : box.gpus) gpu.slice = true;
  const GpuInventory inventory = probe(box);
  EXPECT_THAT(inventory.gpus[3].uuid, testing::StartsWith("MIG-03030303-"));
  EXPECT_EQ(inventory.hidden_gpus, 0);
  EXPECT_EQ(link(inventory, 0, 1).kind, GpuLinkKind::unknown);
  EXPECT_THAT(inventory.remarks, ElementsAre(HasSubstr("8 of the GPUs are MIG slices")));
}

TEST(GpuProbe, CudaMayListWhatNvmlDoesNotKnow) {
  FakeBox box = nvswitch_box();
  box.gpus[1].unknown_to_nvml = true;
  const GpuInventory inventory = probe(box);
  EXPECT_EQ(inventory.gpus.size(), 8u);
  EXPECT_EQ(inventory.hidden_gpus, 0);
  EXPECT_EQ(link(inventory, 0, 1).kind, GpuLinkKind::unknown);
  EXPECT_EQ(link(inventory, 0, 2).kind, GpuLinkKind::nvswitch);
  EXPECT_THAT(inventory.remarks, ElementsAre(HasSubstr("does not know 1 of the GPUs")));
}

TEST(GpuProbe, WithoutNvmlPeerAccessIsStillKnown) {
  FakeBox box = nvswitch_box();
  GpuFunctions functions = functions_of(box);
  functions.nvml = {};
  functions.nvml_problem = "libnvidia-ml.so.1: no such file";
  const GpuInventory inventory = probe_gpus(functions);
  check(inventory, box);
  EXPECT_EQ(inventory.gpus.size(), 8u);
  EXPECT_EQ(link(inventory, 0, 1), (GpuLink{GpuLinkKind::unknown, 0, true}));
  EXPECT_THAT(inventory.remarks, ElementsAre(HasSubstr("NVML cannot be loaded")));
}

TEST(GpuProbe, WithoutADriverThereAreNoGpusAndOneRemark) {
  GpuFunctions functions;
  functions.cuda_problem = "libcuda.so.1: cannot open shared object file";
  functions.nvml_problem = "libnvidia-ml.so.1: cannot open shared object file";
  const GpuInventory inventory = probe_gpus(functions);
  EXPECT_THAT(inventory.gpus, IsEmpty());
  EXPECT_EQ(inventory.cuda_driver, 0);
  EXPECT_THAT(inventory.remarks, ElementsAre(HasSubstr("libcuda.so.1: cannot open")));
}

/// Gives every function that the probe calls, and that returns a result, to `visit`.
template <typename Visit>
void for_each_function(GpuFunctions& functions, Visit visit) {
  const auto visit_all = [&](auto&... all) { (visit(all), ...); };
  cuda_api::Functions& cuda = functions.cuda;
  visit_all(cuda.init, cuda.error_name, cuda.driver_version, cuda.count, cuda.device, cuda.name,
            cuda.uuid, cuda.old_uuid, cuda.total_memory, cuda.attribute, cuda.pci_bus_id,
            cuda.can_access_peer);
  auto& [start, shutdown, text, driver, number, handle, id, info, state, capability, type, remote,
         fields, ancestor] = functions.nvml;
  visit_all(start, shutdown, driver, number, handle, id, info, state, capability, type, remote,
            fields, ancestor);
}

/// Runs `probe` once for each function, with `harm` done to it alone.
template <typename Harm>
std::vector<std::string> harm_each(FakeBox box, Harm harm) {
  std::vector<std::string> harmless;
  std::vector<std::string> names;
  GpuFunctions all = functions_of(box);
  for_each_function(all, [&](auto& function) { names.emplace_back(function.name); });
  for (const std::string& name : names) {
    SCOPED_TRACE(name);
    GpuFunctions functions = functions_of(box);
    for_each_function(functions, [&](auto& function) {
      if (function.name == name) harm(function);
    });
    const GpuInventory inventory = probe_gpus(functions);
    if (name != "nvmlShutdown") check(inventory, box);
    box.sessions = 0;
    const auto& remarks = inventory.remarks;
    const bool told = std::any_of(remarks.begin(), remarks.end(), [&](const std::string& remark) {
      return remark.find(name) != std::string::npos;
    });
    if (!told) harmless.push_back(name);
    EXPECT_LE(remarks.size(), 2u) << testing::PrintToString(remarks);
  }
  return harmless;
}

struct Fail {
  template <typename... Parameters>
  void operator()(Function<int(Parameters...)>& function) const {
    function.pointer = [](Parameters...) { return 999; };
  }
};

TEST(GpuProbe, EachFunctionMayFailAndIsNamed) {
  EXPECT_THAT(harm_each(hybrid_cube_box(), Fail{}),
              ElementsAre("cuGetErrorName", "cuDeviceGetUuid", "nvmlShutdown"));
}

TEST(GpuProbe, EachFunctionMayBeMissingAndIsNamed) {
  EXPECT_THAT(
      harm_each(hybrid_cube_box(), [](auto& function) { function.pointer = nullptr; }),
      ElementsAre("cuGetErrorName", "cuDeviceGetUuid_v2", "cuDeviceGetUuid", "nvmlShutdown"));
}

TEST(GpuProbe, OlderDriversTellTheOtherEndByItsAddress) {
  FakeBox box = hybrid_cube_box();
  GpuFunctions functions = functions_of(box);
  functions.nvml.link_remote_type.pointer = nullptr;
  EXPECT_EQ(link(probe_gpus(functions), 0, 3).bandwidth, 2 * 25781e6);
}

TEST(GpuProbe, WithoutUuidsGpusAreMatchedByAddress) {
  FakeBox box = hybrid_cube_box();
  GpuFunctions functions = functions_of(box);
  functions.nvml.uuid.pointer = nullptr;
  const GpuInventory inventory = probe_gpus(functions);
  EXPECT_EQ(link(inventory, 0, 3).bandwidth, 2 * 25781e6);
  EXPECT_EQ(inventory.gpus[3].uuid, uuid_of(3));
}

TEST(GpuProbe, FailuresAreToldInTheWordsOfTheLibrary) {
  FakeBox box = pcie_box(1);
  GpuFunctions functions = functions_of(box);
  Fail{}(functions.cuda.init);
  EXPECT_THAT(probe_gpus(functions).remarks,
              ElementsAre("cuInit failed: CUDA_ERROR_OF_A_TEST (999)"));
  functions = functions_of(box);
  Fail{}(functions.nvml.init);
  EXPECT_THAT(probe_gpus(functions).remarks,
              ElementsAre("nvmlInit_v2 failed: a failure of the test (999)"));
}

TEST(GpuProbe, CountsBeyondReasonAreCut) {
  FakeBox box = pcie_box(1);
  GpuFunctions functions = functions_of(box);
  functions.cuda.count.pointer = [](int* count) { return *count = -5, 0; };
  EXPECT_THAT(probe_gpus(functions).gpus, IsEmpty());
}

TEST(GpuProbe, ThisMachineAnswersWhateverItHas) {
  const GpuInventory inventory = probe_gpus();
  EXPECT_EQ(inventory.links.size(), inventory.gpus.size() * inventory.gpus.size());
  EXPECT_TRUE(!inventory.gpus.empty() || !inventory.remarks.empty() || inventory.hidden_gpus > 0);
  EXPECT_EQ(probe_gpus().gpus, inventory.gpus) << "the second answer differs";
}

}  // namespace
}  // namespace hymn::test
