// mpirun --enable-recovery -n 4 elastic_training: fits a line to points that the ranks have between
// them, and goes on with the ranks that are left when some are lost. Try it: kill one.
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <hymn/hymn.hpp>
#include <thread>
#include <vector>

namespace {

/// What must be the same on all ranks.
struct Model {
  std::array<double, 2> weights = {0, 0};  // of the line: slope and height
  std::int64_t steps = 0;                  // how often they were changed
};

/// Of the mean squared error over this rank's points, all of which lie on 3 x - 1.
std::array<double, 2> gradient(const Model& model, int rank) {
  std::array<double, 2> slope = {0, 0};
  for (int i = 0; i < 8; ++i) {
    const double x = 0.1 * i + 0.05 * (rank % 2);
    const double error = model.weights[0] * x + model.weights[1] - (3 * x - 1);
    slope[0] += error * x / 4;
    slope[1] += error / 4;
  }
  return slope;
}

void make_step(hymn::ProcessGroup& group, Model& model, int rank) {
  std::array<double, 2> mean = gradient(model, rank);
  group.all_reduce(std::span(mean), hymn::ReduceOp::avg);
  for (std::size_t i = 0; i < mean.size(); ++i) model.weights[i] -= 0.5 * mean[i];
  ++model.steps;
}

/// A failure may come when some ranks have just made a step and others have not: all take the model
/// of one that has gone furthest.
void catch_up(hymn::ProcessGroup& group, Model& model) {
  std::vector<std::int64_t> steps(static_cast<std::size_t>(group.size()));
  group.all_gather(hymn::view_of(std::as_const(model.steps)), steps);
  int furthest = 0;
  for (int member = 1; member < group.size(); ++member)
    if (steps[static_cast<std::size_t>(member)] > steps[static_cast<std::size_t>(furthest)])
      furthest = member;
  // Not in place: if this fails, too, the model must still be whole.
  Model received = model;
  group.broadcast(std::span(received.weights), group.global_rank(furthest));
  received.steps = steps[static_cast<std::size_t>(furthest)];
  model = received;
}

/// The survivors of a failure, in a new group. One more may be lost meanwhile.
hymn::ProcessGroup recover(hymn::ProcessGroup group, Model& model) {
  while (true) {
    try {
      group = group.shrink();
      catch_up(group, model);
      return group;
    } catch (const hymn::Error& error) {
      if (error.kind() != hymn::ErrorKind::peer && error.kind() != hymn::ErrorKind::aborted) throw;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoi(argv[1]) : 2000;
  // So that the others go on wherever one dies, in MPI's calls, too.
  hymn::World world({.thread_level = hymn::ThreadLevel::multiple});
  hymn::ProcessGroup group = world.group();
  std::printf("rank %d is process %d\n", world.rank(), static_cast<int>(getpid()));
  std::fflush(stdout);
  Model model;
  while (model.steps < steps) {
    try {
      make_step(group, model, world.rank());
    } catch (const hymn::Error& error) {
      std::printf("rank %d after %lld steps: %s\n", world.rank(),
                  static_cast<long long>(model.steps), error.what());
      group = recover(group, model);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // real steps take longer
  }
  std::printf("rank %d of %d: %.3f x + %.3f\n", world.rank(), group.size(), model.weights[0],
              model.weights[1]);
}
