// Which way the planner would take on machines of many kinds: by rule and by time.
#include "collectives/planner/planner.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <set>
#include <tuple>

#include "collectives/costs/cost_table.hpp"
#include "collectives/costs/traffic.hpp"
#include "collectives/cuda/peer_models.hpp"
#include "collectives/cuda/peer_rules.hpp"
#include "collectives/inprocess/inprocess_model.hpp"
#include "collectives/mpi/mpi_model.hpp"
#include "collectives/nccl/nccl_models.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "collectives/planner/tuning_table.hpp"
#include "collectives/staged/staged_model.hpp"
#include "tests/support/byte_units.hpp"
#include "tests/unit/plan_query.hpp"

namespace hymn::test {
namespace {

using ::testing::HasSubstr;

Machine box(int gpus, GpuLinkKind kind, double bandwidth) {
  Machine machine;
  const auto count = static_cast<std::size_t>(gpus);
  machine.gpus.resize(count);
  machine.gpu_links.assign(count * count, {kind, bandwidth, std::nullopt});
  for (std::size_t i = 0; i < count; ++i) {
    machine.gpus[i].index = static_cast<int>(i);
    machine.link(i, i).kind = GpuLinkKind::self;
  }
  return machine;
}

/// One host on whose GPUs there is a rank each.
PlanContext one_host(const Machine& machine, GpuLinkKind worst, double bandwidth) {
  const auto gpus = static_cast<int>(machine.gpus.size());
  HostSummary host{.machine = 0, .ranks = gpus, .cores = gpus, .gpus = gpus, .most_sharers = 1};
  host.worst_link = worst;
  host.least_bandwidth = bandwidth;
  PlanContext context;
  context.layout = {.size = gpus, .hosts = {host}};
  context.machines = {std::make_shared<const Machine>(machine)};
  return context;
}

PlanContext nvswitch8() {
  return one_host(box(8, GpuLinkKind::nvswitch, 450e9), GpuLinkKind::nvswitch, 450e9);
}

/// `hosts` hosts without GPUs.
PlanContext hosts_of(int hosts, int ranks_each, int cores) {
  HostSummary host{
      .machine = 0, .ranks = ranks_each, .cores = cores, .oversubscribed = ranks_each > cores};
  host.ranks_without_gpu = ranks_each;
  PlanContext context;
  context.layout.size = hosts * ranks_each;
  context.layout.hosts.assign(static_cast<std::size_t>(hosts), host);
  context.machines = {std::make_shared<const Machine>()};
  return context;
}

/// "path method" of the fastest of all models that can run the query.
std::string best(const PlanQuery& query, const PlanContext& context) {
  const AlgorithmModel* found = nullptr;
  double least = 0;
  for (const AlgorithmModel* model : algorithm_models()) {
    if (model == &inprocess_model || !model->serves.contains(query.type)) continue;
    if (!model->can_run(query, context).ok) continue;
    const double seconds = model->seconds(query, context);
    EXPECT_GT(seconds, 0) << model->path;
    if (found != nullptr && seconds >= least) continue;
    found = model;
    least = seconds;
  }
  return found == nullptr ? "nothing" : fmt::format("{} {}", found->path, found->method);
}

std::string refusal_by_path(std::string_view path, const PlanQuery& query,
                            const PlanContext& context) {
  for (const AlgorithmModel* model : algorithm_models())
    if (model->path == path) return model->can_run(query, context).reason;
  return "there is no such path";
}

TEST(Planner, EveryRowIsThereOnceAndStandsOnSomething) {
  std::set<std::tuple<std::string_view, std::string_view, CostSetting>> rows;
  for (const CostRow& row : cost_table) {
    EXPECT_FALSE(row.stands_on.empty()) << row.path;
    EXPECT_TRUE(rows.emplace(row.path, row.method, row.setting).second)
        << row.path << " " << row.method << ": a row is there twice";
  }
}

TEST(Planner, WhereASettingHasNoRowThatOfOneHostCounts) {
  constexpr MethodCost mpi("mpi", "mpi");
  constexpr MethodCost windows("cuda_p2p", "windows");
  EXPECT_EQ(mpi.in(CostSetting::several_hosts).setting, CostSetting::several_hosts);
  EXPECT_EQ(windows.in(CostSetting::several_hosts).setting, CostSetting::one_host);
}

TEST(Planner, NamesAlgorithmsByTheirCollective) {
  EXPECT_EQ(mpi_model.name_for(OpType::all_reduce), "all_reduce_mpi");
  EXPECT_EQ(algorithm_name(OpType::reduce_scatter, "pairwise"), "reduce_scatter_pairwise");
  EXPECT_EQ(algorithm_name(OpType::send, "rings"), "send_recv_rings");
  EXPECT_EQ(algorithm_name(OpType::recv, "rings"), "send_recv_rings");
}

TEST(Planner, CountsBytesAndRounds) {
  EXPECT_DOUBLE_EQ(bytes_moved(OpType::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bytes_moved(OpType::broadcast, 4), 1);
  EXPECT_DOUBLE_EQ(bytes_moved(OpType::broadcast, 1), 0);
  EXPECT_DOUBLE_EQ(bytes_moved(OpType::all_to_all, 4), 0.75);
  EXPECT_DOUBLE_EQ(bytes_moved(OpType::scan, 4), 1);
  EXPECT_DOUBLE_EQ(bytes_moved(OpType::exscan, 1), 0);
  EXPECT_DOUBLE_EQ(bytes_moved(OpType::barrier, 4), 0);
  EXPECT_DOUBLE_EQ(tree_rounds(1), 0);
  EXPECT_DOUBLE_EQ(tree_rounds(5), 3);
  EXPECT_DOUBLE_EQ(pairwise_messages(OpType::all_reduce, 4), 6);
  EXPECT_DOUBLE_EQ(pairwise_messages(OpType::all_to_all, 4), 3);
  EXPECT_DOUBLE_EQ(pairwise_messages(PlanQuery{.bytes = 4096}, 4), 3) << "each has all";
  EXPECT_DOUBLE_EQ(pairwise_messages(PlanQuery{.bytes = 4097}, 4), 6);
  EXPECT_DOUBLE_EQ(pairwise_messages(PlanQuery{.bytes = 4096}, 100), 198);
  EXPECT_DOUBLE_EQ(pairwise_messages(PlanQuery{.op = ReduceKind::custom, .bytes = 8}, 4), 6);
  EXPECT_DOUBLE_EQ(pairwise_messages(OpType::scan, 4), 3);
  EXPECT_DOUBLE_EQ(pairwise_messages(OpType::barrier, 4), 2);
}

// The figures that the seed of this rule gives for 8 GPUs: one-shot for 4 KiB, two-shot for
// 512 KiB and 10 MiB.
TEST(Planner, SwitchedGpusTakeOneShotTwoShotThenNccl) {
  const PlanContext context = nvswitch8();
  EXPECT_EQ(best(on_device(4 * KiB), context), "cuda_p2p one_shot");
  EXPECT_EQ(best(on_device(512 * KiB), context), "cuda_p2p two_shot");
  EXPECT_EQ(best(on_device(10 * MiB), context), "cuda_p2p two_shot");
  EXPECT_EQ(best(on_device(1024 * MiB), context), "nccl nccl");
}

TEST(Planner, WhatTheKernelsLackGoesToNccl) {
  const PlanContext context = nvswitch8();
  PlanQuery query = on_device(64 * KiB);
  query.dtype = DataType::int64;
  query.op = ReduceKind::max;
  EXPECT_EQ(best(query, context), "nccl nccl");
  EXPECT_EQ(refusal_by_path("cuda_p2p", query, context), "there is no kernel for max of int64");
  query.dtype = DataType::float32;
  query.op = ReduceKind::premul_sum;
  EXPECT_EQ(best(query, context), "nccl nccl");
  EXPECT_EQ(refusal_by_path("cuda_p2p", query, context),
            "there is no kernel for premul_sum of float32");
}

TEST(Planner, TheKernelsTakeAnyLengthAndAllOfTheirTable) {
  const PlanContext context = nvswitch8();
  EXPECT_EQ(best(on_device(64 * KiB + 2), context), "cuda_p2p one_shot");
  for (const PeerCell& cell : peer_cells) {
    PlanQuery query = on_device(64 * KiB, cell.kind);
    query.dtype = cell.dtype;
    EXPECT_EQ(best(query, context), "cuda_p2p one_shot");
  }
}

std::string windows_refusal(const PlanQuery& query, const PlanContext& context) {
  return peer_models::windows.can_run(query, context).reason;
}

// A window holds 4 MiB: of each rank, or of all where each has something for each.
TEST(Planner, OtherCollectivesTakeWindowsAtAnySize) {
  const PlanContext context = nvswitch8();
  for (const OpType type : {OpType::all_gather, OpType::broadcast, OpType::reduce, OpType::gather,
                            OpType::scatter, OpType::reduce_scatter, OpType::all_to_all}) {
    PlanQuery query = on_device(64 * KiB);
    query.type = type;
    EXPECT_EQ(best(query, context), "cuda_p2p windows") << to_string(type);
    query.bytes = 1024 * MiB;
    EXPECT_EQ(windows_refusal(query, context), "") << to_string(type);
  }
  EXPECT_EQ(windows_refusal(on_device(64), context), "there is no kernel for all_reduce");
  PlanQuery gather = on_device(64);
  gather.type = OpType::all_gather;
  gather.dtype = DataType::float64;
  EXPECT_EQ(windows_refusal(gather, context), "") << "what is only moved may be of any type";
}

// All but one read from one GPU, or one from all, and not each from another.
TEST(Planner, WhatGoesThroughOneGpuTakesLongerThanAnAllGather) {
  const PlanContext context = nvswitch8();
  PlanQuery query = on_device(4 * MiB);
  const auto seconds = [&](OpType type) {
    query.type = type;
    return predict(peer_models::windows, query, context).seconds;
  };
  EXPECT_GT(seconds(OpType::broadcast), 3 * seconds(OpType::all_gather));
  EXPECT_EQ(seconds(OpType::reduce), seconds(OpType::broadcast));
  EXPECT_EQ(seconds(OpType::scatter), seconds(OpType::all_gather));
}

// Staged ones may be faster, but the host waits for all that the GPU does before.
TEST(Planner, BarriersOnStreamsSpareTheHost) {
  const PlanContext context =
      one_host(box(16, GpuLinkKind::nvswitch, 450e9), GpuLinkKind::nvswitch, 450e9);
  const PlanQuery query{.type = OpType::barrier, .memory = MemoryKind::device};
  const Cost windows = predict(peer_models::windows, query, context);
  const Cost nccl = predict(nccl_models::nccl, query, context);
  const Cost staged = predict(staged_model, query, context);
  EXPECT_LT(staged.seconds, nccl.seconds);
  EXPECT_TRUE(is_faster(nccl, staged));
  EXPECT_TRUE(is_faster(windows, nccl));
  EXPECT_EQ(windows_refusal(query, context), "");
  EXPECT_EQ(windows_refusal({.type = OpType::barrier}, context), "it is not ordered by a stream");
}

TEST(Planner, BitwiseReductionsGoThroughTheHost) {
  PlanQuery query = on_device(64 * KiB);
  query.dtype = DataType::int32;
  query.op = ReduceKind::bxor;
  EXPECT_EQ(best(query, nvswitch8()), "staged staged");
  EXPECT_EQ(refusal_by_path("nccl", query, nvswitch8()), "NCCL has no bxor");
}

TEST(Planner, PairsWithoutPeerAccessGoToNccl) {
  PlanContext context = nvswitch8();
  context.layout.hosts[0].all_peers = false;
  EXPECT_EQ(best(on_device(4 * KiB), context), "nccl nccl");
  EXPECT_EQ(refusal_by_path("cuda_p2p", on_device(4 * KiB), context),
            "some pairs of GPUs have no peer access");
}

TEST(Planner, SharedGpusAreNotForNccl) {
  PlanContext context = nvswitch8();
  context.layout.hosts[0].gpus = 4;
  context.layout.hosts[0].most_sharers = 2;
  EXPECT_EQ(best(on_device(4 * KiB), context), "cuda_p2p one_shot");
  EXPECT_EQ(refusal_by_path("nccl", on_device(4 * KiB), context),
            "2 ranks share one GPU, which NCCL refuses");
  EXPECT_EQ(best(on_device(4 * KiB, ReduceKind::product), context), "staged staged");
}

TEST(Planner, RanksWithoutGpuGoThroughTheHost) {
  PlanContext context = nvswitch8();
  context.layout.hosts[0].ranks_without_gpu = 3;
  context.layout.hosts[0].gpus = 5;
  EXPECT_EQ(best(on_device(4 * KiB), context), "staged staged");
  EXPECT_EQ(refusal_by_path("nccl", on_device(4 * KiB), context), "3 of 8 ranks have no GPU");
}

TEST(Planner, OverPcieSmallOnesGoDirectlyLargeOnesByRing) {
  const PlanContext context =
      one_host(box(4, GpuLinkKind::host_bridge, 20e9), GpuLinkKind::host_bridge, 20e9);
  EXPECT_EQ(best(on_device(4 * KiB), context), "cuda_p2p one_shot");
  EXPECT_EQ(best(on_device(64 * MiB), context), "nccl nccl");
}

TEST(Planner, ThroughTheLinkBetweenPackagesOnlyNccl) {
  const PlanContext context =
      one_host(box(4, GpuLinkKind::system, 10e9), GpuLinkKind::system, 10e9);
  EXPECT_EQ(best(on_device(4 * KiB), context), "nccl nccl");
  EXPECT_THAT(refusal_by_path("cuda_p2p", on_device(4 * KiB), context),
              HasSubstr("between packages"));
  const PlanContext unknown = one_host(box(4, GpuLinkKind::unknown, 0), GpuLinkKind::unknown, 0);
  EXPECT_THAT(refusal_by_path("cuda_p2p", on_device(4 * KiB), unknown), HasSubstr("not known"));
}

/// Eight GPUs of four direct links each, two of them double; the other pairs go between packages.
Machine hybrid_cube() {
  Machine machine = box(8, GpuLinkKind::system, 10e9);
  const auto join = [&](std::size_t a, std::size_t b, double bandwidth) {
    machine.link(a, b) = {GpuLinkKind::nvlink, bandwidth, std::nullopt};
    machine.link(b, a) = machine.link(a, b);
  };
  for (std::size_t half : {0u, 4u}) {
    join(half, half + 1, 25e9);
    join(half, half + 2, 25e9);
    join(half, half + 3, 50e9);
    join(half + 1, half + 2, 50e9);
    join(half + 1, half + 3, 25e9);
    join(half + 2, half + 3, 50e9);
  }
  for (std::size_t i = 0; i < 4; ++i) join(i, i + 4, 25e9);
  return machine;
}

TEST(Planner, AHybridCubeGoesToNcclWhoseRingsFollowItsLinks) {
  const PlanContext context = one_host(hybrid_cube(), GpuLinkKind::system, 10e9);
  EXPECT_EQ(best(on_device(4 * KiB), context), "nccl nccl");
  const PlanContext plain = one_host(box(8, GpuLinkKind::system, 10e9), GpuLinkKind::system, 10e9);
  const auto seconds = [](const PlanContext& on) {
    return predict(nccl_models::nccl, on_device(256 * MiB), on).seconds;
  };
  EXPECT_GT(seconds(plain), 5 * seconds(context));
}

TEST(Planner, GpusOfSeveralHostsGoToNccl) {
  PlanContext context = nvswitch8();
  context.layout.hosts.push_back(context.layout.hosts[0]);
  context.layout.size = 16;
  EXPECT_EQ(best(on_device(4 * KiB), context), "nccl nccl");
  EXPECT_EQ(refusal_by_path("cuda_p2p", on_device(4 * KiB), context), "the ranks are on 2 hosts");
}

TEST(Planner, HostMemoryTakesSharedMemoryOrAHierarchy) {
  const PlanQuery query{.bytes = 64 * KiB};
  EXPECT_EQ(best(query, hosts_of(1, 4, 8)), "shm two_shot");
  EXPECT_EQ(best(query, hosts_of(1, 4, 2)), "shm sharing");
  EXPECT_EQ(best({.type = OpType::barrier}, hosts_of(1, 8, 2)), "shm flags");
  EXPECT_EQ(best(query, hosts_of(4, 8, 8)), "hierarchical hierarchical");
  EXPECT_EQ(best(query, hosts_of(4, 1, 8)), "mpi mpi");
  const PlanQuery personal{.type = OpType::all_to_all, .bytes = 64 * KiB};
  EXPECT_EQ(best(personal, hosts_of(4, 8, 8)), "mpi mpi");
}

TEST(Planner, PrefixesTakeAHierarchyWhereRanksLieHostByHost) {
  const PlanQuery query{.type = OpType::scan, .bytes = 4 * KiB};
  PlanContext context = hosts_of(2, 8, 8);
  EXPECT_EQ(best(query, context), "hierarchical hierarchical");
  // The last host would have to hear from each of very many.
  EXPECT_EQ(best(query, hosts_of(64, 8, 8)), "mpi mpi");
  context.layout.in_rank_order = false;
  EXPECT_EQ(best(query, context), "mpi mpi");
  EXPECT_EQ(refusal_by_path("hierarchical", query, context),
            "the ranks of some host do not follow one another");
}

TEST(Planner, PathsOfHostMemoryDoNotReadDevices) {
  for (const AlgorithmModel* model : algorithm_models()) {
    const PlanContext context = hosts_of(2, 2, 2);
    const bool device = model->can_run(on_device(64), context).ok;
    const bool host = model->can_run({.bytes = 64}, context).ok;
    EXPECT_FALSE(device && host) << model->path << " " << model->method;
    EXPECT_NE(model->can_run(on_device(64), context).reason.empty(), !device);
  }
}

// Without measurements of its own hymn prefers MPI's own collectives.
TEST(Planner, TheDefaultTableKeepsTheOrderOfThisBuild) {
  const std::array order = {&inprocess_model, &mpi_model, &pairwise_models::over_mpi,
                            &pairwise_models::over_exchange};
  for (const PlanContext& context :
       {hosts_of(1, 1, 1), hosts_of(1, 2, 2), hosts_of(1, 3, 2), hosts_of(1, 7, 2),
        hosts_of(1, 64, 64), hosts_of(2, 1, 1), hosts_of(2, 4, 2), hosts_of(64, 8, 8)})
    for (int type = 0; type <= static_cast<int>(OpType::barrier); ++type)
      for (std::size_t bytes = 1; bytes <= 1024 * MiB; bytes *= 4) {
        const PlanQuery query{.type = static_cast<OpType>(type), .bytes = bytes};
        double before = 0;
        for (const AlgorithmModel* model : order) {
          const double seconds = predict(*model, query, context).seconds;
          EXPECT_GT(seconds, 0) << model->path;
          EXPECT_GE(seconds, before) << model->path << " " << to_string(query.type) << " " << bytes
                                     << " on " << context.layout.size;
          before = seconds;
        }
      }
}

TEST(Planner, LongerMessagesTakeLonger) {
  for (const PlanContext& context : {nvswitch8(), hosts_of(1, 4, 4), hosts_of(3, 4, 4)})
    for (const AlgorithmModel* model : algorithm_models()) {
      double before = 0;
      for (std::size_t bytes = 16; bytes <= 256 * MiB; bytes *= 2) {
        for (const MemoryKind memory : {MemoryKind::host, MemoryKind::device}) {
          const PlanQuery query{.bytes = bytes, .memory = memory};
          if (!model->can_run(query, context).ok) continue;
          const double seconds = model->seconds(query, context);
          EXPECT_GT(seconds, before) << model->path << " " << bytes;
          before = seconds;
        }
      }
    }
}

TEST(Planner, AMeasurementComesBeforeTheTable) {
  PlanContext context = hosts_of(1, 2, 2);
  const PlanQuery query{.bytes = 8};
  EXPECT_EQ(predict(mpi_model, query, context).source, "default table");
  auto table = std::make_shared<TuningTable>();
  table->measured = "2026-11-21";
  table->rows.push_back(
      {"mpi", "all_reduce_mpi", OpType::all_reduce, DataType::float32, 2, 1, {{8, 0.5}}});
  context.tuning = table;
  const Cost cost = predict(mpi_model, query, context);
  EXPECT_EQ(cost.seconds, 0.5);
  EXPECT_EQ(cost.source, "tuned on 2026-11-21");
  EXPECT_EQ(predict(pairwise_models::over_mpi, query, context).source, "default table");
  EXPECT_EQ(predict(mpi_model, query, PlanContext{}).seconds, 0);
}

}  // namespace
}  // namespace hymn::test
