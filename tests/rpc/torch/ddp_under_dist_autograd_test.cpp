// Trainers whose model goes through another worker, with and without a gradient reducer.
#include <condition_variable>
#include <mutex>

#include "tests/rpc/torch/hybrid.hpp"

namespace hymn::test {
namespace {

/// What a worker waits for that only serves.
struct Signal {
  std::mutex mutex;
  std::condition_variable changed;
  bool is_set = false;
};
Signal shutdown_signal;

const auto set_signal = rpc::register_function("hybrid.end", [] {
  {
    const std::lock_guard lock(shutdown_signal.mutex);
    shutdown_signal.is_set = true;
  }
  shutdown_signal.changed.notify_all();
});
void wait_for_signal() {
  std::unique_lock lock(shutdown_signal.mutex);
  require(shutdown_signal.changed.wait_for(lock, std::chrono::seconds(40),
                                           [] { return shutdown_signal.is_set; }),
          "nobody has told this worker that it may end");
}

using TrainerPtr = std::shared_ptr<Trainer>;
using TrainerRef = rpc::RemoteRef<TrainerPtr>;

const auto make_trainer = rpc::register_function(
    "hybrid.trainer", [](const EmbedderRef& embedder, const NetRef& net, Reduced reduced) {
      return std::make_shared<Trainer>(*this_worker(), embedder, net, reduced);
    });
const auto train = rpc::register_function(
    "hybrid.train",
    [](const TrainerRef& trainer, const Features& batch, bool has_less, bool is_uneven) {
      return trainer.local_value()->train(batch, has_less, is_uneven);
    });
const auto end_trainer = rpc::register_function(
    "hybrid.end_trainer", [](const TrainerRef& trainer) { trainer.local_value()->end(); });

void check_gradients(const TrainedGradients& gradients, bool is_uneven) {
  for (const at::Tensor& each : gradients.first)
    require(is_uneven || at::equal(each, at::zeros_like(each)),
            "the gradients that are averaged do not cancel each other");
  for (const at::Tensor& each : gradients.second)
    require(!at::equal(each, at::zeros_like(each)), "a gradient that is not averaged is 0");
}

void drive(Worker& worker, Reduced reduced, bool is_uneven) {
  rpc::Agent& agent = worker.agent;
  const auto embedder =
      agent.remote(parameter_rank, embedder_kind.make, embedded_rows, sparse_width);
  const auto net =
      agent.remote(parameter_rank, net_kind.make, dense_width + sparse_width, hidden_width);
  std::vector<TrainerRef> trainers;
  for (const int rank : trainer_ranks)
    trainers.push_back(agent.remote(Worker::name(rank), make_trainer, embedder, net, reduced));
  if (reduced != Reduced::nowhere) (void)worker.world.new_group(trainer_ranks);
  const std::vector<Features> examples = training_examples();
  for (int round = 0; round < 3; ++round) {
    std::vector<Future<TrainedGradients>> results;
    for (std::size_t i = 0; i < trainers.size(); ++i)
      results.push_back(agent.rpc_async(trainers[i].owner(), train, trainers[i], examples[i],
                                        is_uneven && i < trainers.size() / 2, is_uneven));
    for (const auto& each : results) check_gradients(each.get(), is_uneven);
  }
  for (const TrainerRef& each : trainers) agent.rpc_sync(each.owner(), end_trainer, each);
  for (const int rank : trainer_ranks) agent.rpc_sync(rank, set_signal);
  agent.rpc_sync(parameter_rank, set_signal);
}

void run(Reduced reduced, bool is_uneven = false) {
  on_processes(6, [&](Worker& worker) {
    if (worker.rank == master_rank) return drive(worker, reduced, is_uneven);
    // Trainers make the group inside a call; this worker and the master by their main threads.
    if (worker.rank == parameter_rank && reduced != Reduced::nowhere)
      (void)worker.world.new_group(trainer_ranks);
    wait_for_signal();
    require(distributed::Context::count(worker.agent) == 0, "a context is still there");
  });
}

TEST(DdpUnderDistAutogradTest, test_backward_no_ddp) { run(Reduced::nowhere); }
TEST(DdpUnderDistAutogradTest, test_backward_ddp_outside) { run(Reduced::outside); }
TEST(DdpUnderDistAutogradTest, test_backward_ddp_outside_uneven_inputs) {
  run(Reduced::outside, true);
}
TEST(DdpUnderDistAutogradTest, test_backward_ddp_inside) { run(Reduced::inside); }

}  // namespace
}  // namespace hymn::test
