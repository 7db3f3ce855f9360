// Which operations are left to other paths though peer memory could carry them.
#include "collectives/planner/peer_use.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collectives/cuda/peer_models.hpp"
#include "collectives/nccl/nccl_models.hpp"
#include "collectives/planner/tuning_table.hpp"
#include "collectives/shm/shm_models.hpp"
#include "tests/support/byte_units.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

PeerUse use_of(std::string_view path, P2pCompat compat = P2pCompat::none) {
  return peer_use(PathPolicy::parse(path, "the test"), compat);
}

PlanQuery sum_of_bfloat16(std::size_t bytes) {
  return {.dtype = DataType::bfloat16, .bytes = bytes, .memory = MemoryKind::device};
}

std::string left_by_c10d(const AlgorithmModel& model, const PlanQuery& query) {
  PlanContext context;
  context.peers = PeerUse::c10d;
  return held_back(model, query, context);
}

/// "one_shot", "two_shot", or why neither is used.
std::string taken_by_c10d(const PlanQuery& query) {
  const std::string one = left_by_c10d(peer_models::one_shot, query);
  const std::string two = left_by_c10d(peer_models::two_shot, query);
  if (one.empty() && two.empty()) return "both";
  if (one.empty()) return "one_shot";
  return two.empty() ? "two_shot" : two;
}

TEST(PeerUse, IsWhatTheSettingsSay) {
  EXPECT_EQ(use_of(""), PeerUse::measured);
  EXPECT_EQ(use_of("^mpi"), PeerUse::measured);
  EXPECT_EQ(use_of("cuda_p2p,nccl"), PeerUse::named);
  EXPECT_EQ(use_of("", P2pCompat::c10d), PeerUse::c10d);
  EXPECT_EQ(use_of("cuda_p2p", P2pCompat::c10d), PeerUse::c10d);
}

TEST(PeerUse, HoldsNothingBackFromOtherPaths) {
  for (const PeerUse peers : {PeerUse::measured, PeerUse::named, PeerUse::c10d}) {
    PlanContext context;
    context.peers = peers;
    EXPECT_EQ(held_back(nccl_models::nccl, sum_of_bfloat16(64), context), "");
    EXPECT_EQ(held_back(shm_models::one_shot, {.bytes = 64}, context), "");
  }
}

/// Three ranks on one host, each with a GPU.
PlanContext three_gpus() {
  HostSummary host{.machine = 0, .ranks = 3, .cores = 3, .gpus = 3, .most_sharers = 1};
  host.worst_link = GpuLinkKind::nvswitch;
  PlanContext context;
  context.layout = {.size = 3, .hosts = {host}};
  context.machines = {std::make_shared<const Machine>()};
  return context;
}

TEST(PeerUse, WhereItIsNamedItMayCarryAll) {
  PlanContext context = three_gpus();
  EXPECT_NE(held_back(peer_models::one_shot, sum_of_bfloat16(64), context), "");
  context.peers = PeerUse::named;
  EXPECT_EQ(held_back(peer_models::one_shot, sum_of_bfloat16(64), context), "");
  EXPECT_FALSE(is_settled(peer_models::one_shot, sum_of_bfloat16(64), context));
}

TEST(PeerUse, OtherwiseItCarriesWhatWasMeasured) {
  PlanContext context = three_gpus();
  const auto why_not = [&](const PlanQuery& query) {
    return held_back(peer_models::one_shot, query, context);
  };
  EXPECT_EQ(why_not(sum_of_bfloat16(64)),
            "it has not been measured here: run `hymn tune --memory device --dtype bfloat16` on 3 "
            "ranks, or name cuda_p2p in HYMN_PATH");
  TuningTable table;
  table.rows.push_back({.path = "cuda_p2p",
                        .algorithm = "all_reduce_one_shot",
                        .dtype = DataType::bfloat16,
                        .ranks = 3,
                        .hosts = 1,
                        .points = {{8, 1e-6}},
                        .memory = MemoryKind::device});
  context.tuning = std::make_shared<const TuningTable>(table);
  EXPECT_EQ(why_not(sum_of_bfloat16(64)), "");
  PlanQuery query = sum_of_bfloat16(64);
  query.dtype = DataType::float32;
  EXPECT_THAT(why_not(query), HasSubstr("--dtype float32"));
  EXPECT_THAT(held_back(peer_models::windows, {.type = OpType::broadcast}, context),
              HasSubstr("run `hymn tune --memory device` on 3 ranks"));
  constexpr bool one_host = true;
  EXPECT_TRUE(table.knows("cuda_p2p"));
  EXPECT_TRUE(table.knows("cuda_p2p", 3, one_host));
  EXPECT_FALSE(table.knows("cuda_p2p", 3, !one_host));
  EXPECT_FALSE(table.knows("cuda_p2p", 2, one_host));
  EXPECT_FALSE(table.knows("nccl", 3, one_host));
  table.rows[0].memory = MemoryKind::host;
  context.tuning = std::make_shared<const TuningTable>(table);
  EXPECT_NE(why_not(sum_of_bfloat16(64)), "");
}

TEST(PeerUse, C10dStaysInsideAHost) {
  EXPECT_EQ(left_by_c10d(nccl_models::hierarchical_nccl, sum_of_bfloat16(MiB)),
            "HYMN_P2P_COMPAT=c10d: only inside a host");
}

TEST(PeerUse, C10dGoesBySize) {
  EXPECT_EQ(taken_by_c10d(sum_of_bfloat16(4 * KiB)), "one_shot");
  EXPECT_EQ(taken_by_c10d(sum_of_bfloat16(256 * KiB)), "one_shot");
  EXPECT_EQ(taken_by_c10d(sum_of_bfloat16(256 * KiB + 2)), "two_shot");
  EXPECT_EQ(taken_by_c10d(sum_of_bfloat16(512 * KiB)), "two_shot");
  EXPECT_EQ(taken_by_c10d(sum_of_bfloat16(10 * MiB)), "two_shot");
  EXPECT_EQ(taken_by_c10d(sum_of_bfloat16(10 * MiB + 2)),
            "HYMN_P2P_COMPAT=c10d: at most 10485760 bytes");
  EXPECT_EQ(left_by_c10d(peer_models::two_shot, sum_of_bfloat16(4 * KiB)),
            "HYMN_P2P_COMPAT=c10d: up to 262144 bytes take one shot");
  EXPECT_EQ(left_by_c10d(peer_models::one_shot, sum_of_bfloat16(MiB)),
            "HYMN_P2P_COMPAT=c10d: more than 262144 bytes take two shots");
}

TEST(PeerUse, C10dRoundsUpToStepsOfAllRanks) {
  PlanContext context = three_gpus();
  context.peers = PeerUse::c10d;
  constexpr std::size_t most = 10 * MiB / (3 * 512) * (3 * 512);
  const auto why_not = [&](std::size_t bytes) {
    return held_back(peer_models::two_shot, sum_of_bfloat16(bytes), context);
  };
  EXPECT_EQ(why_not(most), "");
  EXPECT_EQ(why_not(most + 2), "HYMN_P2P_COMPAT=c10d: at most 10484736 bytes");
}

TEST(PeerUse, C10dWantsFewRanksAndNvlink) {
  PlanContext context = three_gpus();
  context.peers = PeerUse::c10d;
  const auto why_not = [&] {
    return held_back(peer_models::two_shot, sum_of_bfloat16(MiB), context);
  };
  for (const GpuLinkKind kind :
       {GpuLinkKind::nvlink, GpuLinkKind::nvswitch, GpuLinkKind::self, GpuLinkKind::unknown}) {
    context.layout.hosts[0].worst_link = kind;
    EXPECT_EQ(why_not(), "") << to_string(kind);
  }
  for (const GpuLinkKind kind :
       {GpuLinkKind::pcie_switch, GpuLinkKind::host_bridge, GpuLinkKind::system}) {
    context.layout.hosts[0].worst_link = kind;
    EXPECT_EQ(why_not(), "HYMN_P2P_COMPAT=c10d: only over NVLink") << to_string(kind);
  }
  context.layout.hosts[0].worst_link = GpuLinkKind::nvswitch;
  context.layout.size = context.layout.hosts[0].ranks = 9;
  EXPECT_EQ(why_not(), "HYMN_P2P_COMPAT=c10d: at most 8 ranks");
}

TEST(PeerUse, C10dKnowsSumsOfBfloat16Alone) {
  const std::string only = "HYMN_P2P_COMPAT=c10d: only all_reduce of bfloat16 with sum";
  PlanQuery query = sum_of_bfloat16(4 * KiB);
  query.dtype = DataType::float32;
  EXPECT_EQ(taken_by_c10d(query), only);
  query = sum_of_bfloat16(4 * KiB);
  query.op = ReduceKind::avg;
  EXPECT_EQ(taken_by_c10d(query), only);
  query = sum_of_bfloat16(4 * KiB);
  query.type = OpType::reduce_scatter;
  EXPECT_EQ(left_by_c10d(peer_models::windows, query), only);
}

TEST(PeerUse, ByC10dItIsTakenWhateverItCosts) {
  EXPECT_TRUE(is_faster({1, "", true}, {0.5, "", false}));
  EXPECT_FALSE(is_faster({0.5, "", false}, {1, "", true}));
  EXPECT_TRUE(is_faster({0.5, "", true}, {1, "", true}));
  EXPECT_TRUE(is_faster({0, "", true}, {1, "", false})) << "even if its time is not known";
}

}  // namespace
}  // namespace hymn::test
