// What the planner predicts, and refuses, of all_reduces in the memory of GPUs of several hosts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "collectives/cuda/peer_models.hpp"
#include "collectives/nccl/nccl_models.hpp"
#include "collectives/planner/planner.hpp"
#include "tests/support/byte_units.hpp"
#include "tests/unit/plan_query.hpp"

namespace hymn::test {
namespace {

/// Hosts of eight GPUs behind a switch, with a rank on each, and ten-gigabit Ethernet.
PlanContext switched(int hosts) {
  HostSummary host{.machine = 0, .ranks = 8, .cores = 8, .gpus = 8, .most_sharers = 1};
  host.worst_link = GpuLinkKind::nvswitch;
  host.least_bandwidth = 450e9;
  PlanContext context;
  context.layout.size = 8 * hosts;
  context.layout.hosts.assign(static_cast<std::size_t>(hosts), host);
  context.machines = {std::make_shared<const Machine>()};
  return context;
}

std::string taken(const PlanQuery& query, const PlanContext& context) {
  std::string name = "nothing";
  Cost least;
  for (const AlgorithmModel* model : algorithm_models()) {
    if (!model->serves.contains(query.type) || !model->can_run(query, context).ok) continue;
    const Cost cost{model->seconds(query, context), "", false};
    if (name != "nothing" && !is_faster(cost, least)) continue;
    name = model->method;
    least = cost;
  }
  return name;
}

std::string model_refusal(const AlgorithmModel& model, const PlanQuery& query,
                          const PlanContext& context) {
  return model.can_run(query, context).reason;
}

// Half as much crosses the network as in a ring of all.
TEST(GpuHierarchyPlan, LargeOnesGoThroughPeerMemoryAndTheNetwork) {
  const PlanContext context = switched(2);
  EXPECT_EQ(taken(on_device(4 * KiB), context), "nccl");
  EXPECT_EQ(taken(on_device(64 * MiB), context), "hierarchical_nccl");
  PlanQuery gather = on_device(64 * MiB);
  gather.type = OpType::all_gather;
  EXPECT_EQ(taken(gather, context), "nccl");
}

TEST(GpuHierarchyPlan, WhatNcclHasNotIsStagedBetweenHosts) {
  const PlanQuery most = on_device(64 * MiB, ReduceKind::max);
  EXPECT_EQ(taken(most, switched(2)), "hierarchical_staged");
  EXPECT_EQ(model_refusal(nccl_models::hierarchical_nccl, most, switched(2)),
            "NCCL does not specify what its max does with a NaN");
  EXPECT_EQ(model_refusal(peer_models::hierarchical_staged, most, switched(2)), "");
}

TEST(GpuHierarchyPlan, AFastNetworkLeavesNothingToSave) {
  PlanContext context = switched(2);
  Machine machine;
  machine.nics.resize(8);
  for (Nic& nic : machine.nics) nic.bandwidth = 100e9;
  context.machines[0] = std::make_shared<const Machine>(machine);
  EXPECT_EQ(taken(on_device(64 * MiB), context), "nccl");
}

TEST(GpuHierarchyPlan, TakesAsLongAsItsParts) {
  const auto seconds = [](const AlgorithmModel& model, OpType type, const PlanContext& on) {
    PlanQuery query = on_device(64 * MiB);
    query.type = type;
    return predict(model, query, on).seconds;
  };
  const double inside = seconds(peer_models::windows, OpType::reduce_scatter, switched(1)) +
                        seconds(peer_models::windows, OpType::all_gather, switched(1));
  const double whole = seconds(nccl_models::hierarchical_nccl, OpType::all_reduce, switched(2));
  // 50 us of NCCL, and all bytes once over the network, of which it reaches 90 %.
  EXPECT_NEAR(whole - inside, 50e-6 + 64.0 * MiB / (0.9 * 1.25e9), 1e-6);
}

TEST(GpuHierarchyPlan, SaysWhyNot) {
  PlanContext context = switched(1);
  const auto refusal = [&](const PlanQuery& query) {
    const std::string reason = model_refusal(nccl_models::hierarchical_nccl, query, context);
    EXPECT_EQ(model_refusal(peer_models::hierarchical_staged, query, context), reason);
    return reason;
  };
  const PlanQuery query = on_device(64 * KiB);
  EXPECT_EQ(refusal(query), "all ranks are on one host");
  context = switched(2);
  EXPECT_EQ(refusal(query), "");
  EXPECT_EQ(refusal({.bytes = 64}), "the buffers are in host memory");
  PlanQuery average = on_device(64 * KiB, ReduceKind::avg);
  average.dtype = DataType::int32;
  EXPECT_EQ(refusal(average), "there is no kernel for avg of int32");
  average.dtype = DataType::float64;
  EXPECT_EQ(refusal(average), "there is no kernel for avg of float64");
  context.layout.hosts[1].all_peers = false;
  EXPECT_EQ(refusal(query), "some pairs of GPUs have no peer access");
  context.layout.hosts[1].ranks = 7;
  EXPECT_EQ(refusal(query), "the hosts have different numbers of ranks: 7 to 8");
  for (HostSummary& host : context.layout.hosts) host.ranks = 1;
  EXPECT_EQ(refusal(query), "every rank is alone on its host");
}

}  // namespace
}  // namespace hymn::test
