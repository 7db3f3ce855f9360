// Every algorithm that a group has is one whose model the planner knows, and both judge alike.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "collectives/mpi/mpi_collective.hpp"
#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "collectives/planner/planner.hpp"
#include "p2p/mpi/mpi_port.hpp"
#include "p2p/tcp/tcp_port.hpp"
#include "tests/support/hosts.hpp"
#include "tests/unit/toy_gpus.hpp"

namespace hymn::test {
namespace {

/// Of any collective; its buffers are never looked at. `count` elements of each block, or of all.
Request request_of(OpType type, std::size_t count, int ranks, void* data, DataType dtype,
                   ReduceKind kind, MemoryKind memory) {
  const BufferView one(data, count, dtype, memory);
  const BufferView all(data, count * static_cast<std::size_t>(ranks), dtype, memory);
  const ReduceOp op = ReduceOp::of(kind);
  switch (type) {
    case OpType::all_reduce:
      return Request::all_reduce(one, one, op);
    case OpType::broadcast:
      return Request::broadcast(one, 0);
    case OpType::reduce:
      return Request::reduce(one, one, 0, op);
    case OpType::gather:
      return Request::gather(one, OutputBlocks::equal(all), 0);
    case OpType::scatter:
      return Request::scatter(InputBlocks::equal(all), one, 0);
    case OpType::all_gather:
      return Request::all_gather(one, OutputBlocks::equal(all));
    case OpType::reduce_scatter:
      return Request::reduce_scatter(InputBlocks::equal(all), one, op);
    case OpType::scan:
      return Request::scan(one, one, op);
    case OpType::exscan:
      return Request::exscan(one, one, op);
    case OpType::all_to_all:
      return Request::all_to_all(InputBlocks::equal(all), OutputBlocks::equal(all));
    case OpType::barrier:
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
    case OpType::probe:
      break;
  }
  return Request::barrier();
}

constexpr std::size_t most_bytes = std::size_t{5} << 20;  // of a request

/// Collectives of many types and reductions, of sizes on both sides of all limits.
std::vector<Request> requests_for(int ranks, void* data, MemoryKind memory) {
  std::vector<Request> requests;
  for (const OpType type : all_op_types) {
    if (!is_collective(type)) continue;
    if (type == OpType::barrier && memory == MemoryKind::device) continue;  // wants a stream
    for (const DataType dtype : {DataType::float32, DataType::bfloat16, DataType::int32,
                                 DataType::float64, DataType::boolean, DataType::float8_e5m2})
      for (const ReduceKind kind : {ReduceKind::sum, ReduceKind::avg, ReduceKind::max,
                                    ReduceKind::product, ReduceKind::bxor}) {
        if (is_prefix(type) && kind == ReduceKind::avg) continue;  // refused before paths are asked
        for (const std::size_t limit : {8u, 512u, 4096u, 16384u, 4194304u})
          for (const std::size_t more : {0u, 1u})
            requests.push_back(
                request_of(type, limit / size_of(dtype) / (has_blocks(type) ? ranks : 1) + more,
                           ranks, data, dtype, kind, memory));
      }
  }
  return requests;
}

/// What was found of models while algorithms were walked.
class Walk {
 public:
  explicit Walk(PlanContext context) : context_(std::move(context)) {}

  void look(const Candidate& candidate, const Request& request) {
    const AlgorithmModel* const model = model_of(candidate.path, candidate.algorithm, request.type);
    ASSERT_NE(model, nullptr) << candidate.path << " (" << candidate.algorithm
                              << ") is not in the planner's list";
    const auto query = plan_query(request, context_.layout.size);
    ASSERT_TRUE(query);
    const Verdict planned = model->can_run(*query, context_);
    EXPECT_EQ(candidate.can_run, planned.ok) << what(*model, *query) << ": '" << candidate.reason
                                             << "', planned '" << planned.reason << "'";
    if (!candidate.can_run) return;
    EXPECT_GT(candidate.predicted_us, 0) << what(*model, *query);
    EXPECT_GT(model->seconds(*query, context_), 0) << what(*model, *query);
    seen_.insert(model);
  }
  void look(const Algorithm& algorithm, const Request& request) {
    if (!algorithm.serves(request.type)) return;
    const AlgorithmModel& model = algorithm.model();
    const auto query = plan_query(request, context_.layout.size);
    Verdict verdict = algorithm.can_run(request);
    look(Candidate{.path = std::string(model.path),
                   .algorithm = std::string(model.name_for(request.type)),
                   .can_run = verdict.ok,
                   .reason = verdict.reason,
                   .predicted_us = predict(model, *query, context_).seconds * 1e6,
                   .cost_source = ""},
         request);
  }

  /// Those that could run something.
  const std::set<const AlgorithmModel*>& seen() const { return seen_; }

 private:
  static const AlgorithmModel* model_of(std::string_view path, std::string_view name, OpType type) {
    const AlgorithmModel* found = nullptr;
    for (const AlgorithmModel* model : algorithm_models()) {
      if (model->path != path || !model->serves.contains(type) || model->name_for(type) != name)
        continue;
      EXPECT_EQ(found, nullptr) << path << " (" << name << ") is there twice";
      found = model;
    }
    return found;
  }
  static std::string what(const AlgorithmModel& model, const PlanQuery& query) {
    return std::string(model.path) + " (" + std::string(model.name_for(query.type)) + ") of " +
           std::to_string(query.bytes) + " bytes, " + std::string(to_string(query.dtype)) + ", " +
           std::string(to_string(query.op));
  }

  PlanContext context_;
  std::set<const AlgorithmModel*> seen_;
};

using Models = std::set<const AlgorithmModel*>;

/// So many ranks and GPUs on each host.
PlanContext context_of(const std::vector<HostSummary>& hosts) {
  PlanContext context;
  context.layout.hosts = hosts;
  for (HostSummary& host : context.layout.hosts) {
    host.machine = 0;
    context.layout.size += host.ranks;
    if (host.gpus == 0) host.ranks_without_gpu = host.ranks;
    if (host.gpus > 1) host.worst_link = GpuLinkKind::nvswitch;
    if (host.gpus > 0) host.most_sharers = 1;
  }
  context.machines = {std::make_shared<const Machine>()};
  context.peers = PeerUse::named;
  return context;
}

const std::string all_paths = "threads,shm,hierarchical,exchange,cuda_p2p,nccl,staged";

Models walk(const ProcessGroup& group, const PlanContext& context, void* data, MemoryKind memory) {
  Walk found(context);
  for (const Request& request : requests_for(group.size(), data, memory))
    for (const Candidate& candidate : group.explain(request).candidates)
      found.look(candidate, request);
  return found.seen();
}

/// Of ranks as threads, to whom all mechanisms but MPI's give candidates.
Models walk_hosts(const std::string& layout, const std::vector<HostSummary>& hosts,
                  bool in_rank_order = true) {
  Models seen;
  PlanContext context = context_of(hosts);
  context.layout.in_rank_order = in_rank_order;
  run_on_hosts(layout,
               [&](World& world) {
                 float data = 0;
                 if (world.rank() == 0)
                   seen = walk(world.group(), context, &data, MemoryKind::host);
               },
               {.path = all_paths});
  return seen;
}

/// The same of requests in the memory of their GPUs, of which each rank has one.
Models walk_gpus(const std::vector<int>& gpus_of_hosts, bool in_float32 = false) {
  std::vector<HostSummary> hosts;
  int ranks = 0;
  for (const int count : gpus_of_hosts) {
    hosts.push_back({.ranks = count, .gpus = count});
    ranks += count;
  }
  PlanContext context = context_of(hosts);
  context.nccl_in_float32 = in_float32;
  Config config;
  config.path = PathPolicy::parse(all_paths, "HYMN_PATH");
  config.nccl.reduce_in_float32 = in_float32;
  Models seen;
  ToyGpus gpus(ranks);
  gpus.run_on_hosts(
      gpus_of_hosts,
      [&](World& world) {
        ToyBuffer<std::int8_t> buffer(gpus, world.rank(), std::vector<std::int8_t>(most_bytes));
        if (world.rank() == 0)
          seen = walk(world.group(), context, buffer.data(), MemoryKind::device);
        world.group().barrier();
      },
      config);
  return seen;
}

/// MPI's mechanism needs processes; its algorithms are there without.
Models walk_mpi(int ranks) {
  Walk found(context_of({{.ranks = ranks}}));
  Algorithms algorithms;
  const auto channel = std::make_shared<MpiChannel>();
  const GroupShape shape{.size = ranks};
  add_mpi_algorithms(algorithms, channel, shape);
  add_pairwise_algorithms(algorithms, pairwise_models::over_mpi, make_mpi_port(channel), shape);
  float data = 0;
  for (const Request& request : requests_for(ranks, &data, MemoryKind::host))
    for (const auto& algorithm : algorithms) found.look(*algorithm, request);
  return found.seen();
}

/// Its mechanism is one of worlds over an exchange.
Models walk_tcp(int ranks) {
  Walk found(context_of({{.ranks = ranks}}));
  Algorithms algorithms;
  const GroupShape shape{.size = ranks};
  const auto net = std::make_shared<tcp::Net>(0, ranks, Logger(LogLevel::off, 0));
  std::vector<int> members;
  for (int rank = 0; rank < ranks; ++rank) members.push_back(rank);
  add_pairwise_algorithms(algorithms, pairwise_models::over_tcp, make_tcp_port(net, 0, members),
                          shape);
  float data = 0;
  for (const Request& request : requests_for(ranks, &data, MemoryKind::host))
    for (const auto& algorithm : algorithms) found.look(*algorithm, request);
  return found.seen();
}

// Each of them has a model in the list, and is predicted to take a time; what the model says of a
// request is what the algorithm says. And there is no model of which no algorithm has come.
TEST(AlgorithmModels, ThereIsOneForEachAlgorithmAndTheyAgree) {
  Models seen;
  seen.merge(walk_hosts("0", {{.ranks = 1}}));
  seen.merge(walk_hosts("0,0", {{.ranks = 2}}));
  seen.merge(walk_hosts("0,0,0", {{.ranks = 3}}));
  seen.merge(walk_hosts("0,0,1", {{.ranks = 2}, {.ranks = 1}}));
  seen.merge(walk_hosts("0,1,0", {{.ranks = 2}, {.ranks = 1}}, false));
  seen.merge(walk_hosts("0,1", {{.ranks = 1}, {.ranks = 1}}));
  seen.merge(walk_gpus({1}));
  seen.merge(walk_gpus({3}));
  seen.merge(walk_gpus({2, 2}));
  seen.merge(walk_gpus({2, 1}));
  seen.merge(walk_gpus({2}, true));
  for (const int ranks : {1, 2, 3}) {
    seen.merge(walk_mpi(ranks));
    seen.merge(walk_tcp(ranks));
  }
  for (const AlgorithmModel* model : algorithm_models())
    EXPECT_EQ(seen.contains(model), is_in_this_build(*model))
        << model->path << " " << model->method;
}

// The list is walked where no rank is, too: on machines of all kinds a time is known of all that
// can be done.
TEST(AlgorithmModels, HaveATimeForWhateverCanBeDone) {
  std::vector<PlanContext> contexts;
  for (const int ranks : {1, 2, 3, 8, 65, 129, 300})
    for (const int gpus : {0, ranks})
      for (const std::size_t hosts : {1u, 2u, 5u}) {
        contexts.push_back(
            context_of(std::vector<HostSummary>(hosts, {.ranks = ranks, .gpus = gpus})));
        contexts.back().layout.hosts.front().oversubscribed = hosts == 2;
      }
  for (const PlanContext& context : contexts)
    for (const MemoryKind memory : {MemoryKind::host, MemoryKind::device})
      for (const Request& request : requests_for(context.layout.size, nullptr, memory))
        for (const AlgorithmModel* model : algorithm_models()) {
          const auto query = plan_query(request, context.layout.size);
          if (!model->serves.contains(query->type)) continue;
          const Verdict verdict = model->can_run(*query, context);
          ASSERT_EQ(verdict.ok, verdict.reason.empty());
          if (!verdict.ok) continue;
          ASSERT_GT(model->seconds(*query, context), 0) << model->path << " " << model->method;
        }
}

}  // namespace
}  // namespace hymn::test
