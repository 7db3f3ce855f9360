// Gloo in the comparison, over TCP on the loopback interface, which is all it has inside a host. It
// comes without a launcher, so this program starts its ranks itself:
//
//   driver-gloo -n RANKS SETTINGS PIPES BINDING
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "bench/compare/driver.h"

namespace hymn {
namespace {

using Shared = std::shared_ptr<gloo::Context>;

const Shared& context(const Call* call) { return *static_cast<Shared*>(call->library); }

float* in(const Call* call) { return static_cast<float*>(call->in); }
float* out(const Call* call) { return static_cast<float*>(call->out); }
std::size_t all(const Call* call) { return call->count * static_cast<std::size_t>(call->ranks); }

void add(void* sum, const void* a, const void* b, std::size_t count) {
  gloo::sum<float>(sum, a, b, count);
}

void all_reduce(const Call* call) {
  gloo::AllreduceOptions options(context(call));
  if (call->in != call->out) options.setInput(in(call), call->count);
  options.setOutput(out(call), call->count);
  options.setReduceFunction(add);
  gloo::allreduce(options);
}

void broadcast(const Call* call) {
  gloo::BroadcastOptions options(context(call));
  options.setOutput(out(call), call->count);
  options.setRoot(call->root);
  gloo::broadcast(options);
}

void reduce(const Call* call) {
  gloo::ReduceOptions options(context(call));
  options.setInput(in(call), call->count);
  options.setOutput(out(call), call->count);
  options.setReduceFunction(add);
  options.setRoot(call->root);
  gloo::reduce(options);
}

void gather(const Call* call) {
  gloo::GatherOptions options(context(call));
  options.setInput(in(call), call->count);
  if (call->rank == call->root) options.setOutput(out(call), all(call));
  options.setRoot(call->root);
  gloo::gather(options);
}

void scatter(const Call* call) {
  gloo::ScatterOptions options(context(call));
  if (call->rank == call->root) {
    std::vector<float*> blocks;
    for (std::size_t at = 0; at < all(call); at += call->count) blocks.push_back(in(call) + at);
    options.setInputs(blocks, call->count);
  }
  options.setOutput(out(call), call->count);
  options.setRoot(call->root);
  gloo::scatter(options);
}

void all_gather(const Call* call) {
  gloo::AllgatherOptions options(context(call));
  options.setInput(in(call), call->count);
  options.setOutput(out(call), all(call));
  gloo::allgather(options);
}

void all_to_all(const Call* call) {
  gloo::AlltoallOptions options(context(call));
  options.setInput(in(call), all(call));
  options.setOutput(out(call), all(call));
  gloo::alltoall(options);
}

void send_recv(const Call* call) {
  const int partner = call->rank ^ 1;
  if (partner >= call->ranks) return;
  const std::size_t bytes = call->count * sizeof(float);
  const auto source = context(call)->createUnboundBuffer(call->in, bytes);
  const auto target = context(call)->createUnboundBuffer(call->out, bytes);
  target->recv(partner, 0);
  if (call->rank % 2 == 1) target->waitRecv();
  source->send(partner, 0);
  source->waitSend();
  if (call->rank % 2 == 0) target->waitRecv();
}

void barrier(const Call* call) {
  gloo::BarrierOptions options(context(call));
  gloo::barrier(options);
}

Shared connect(int rank, int ranks, const std::string& folder) {
  gloo::rendezvous::FileStore store(folder);
  std::shared_ptr<gloo::transport::Device> device =
      gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
  const auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  gloo::BarrierOptions all_connected(context);
  gloo::barrier(all_connected);
  // Nothing is left behind, whatever ends the job from now on.
  if (rank == 0) std::filesystem::remove_all(folder);
  return context;
}

int run_rank(char** argv, int rank, int ranks, const std::string& folder) {
  // The ranks end with this job's launcher.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("COMPARE_RANK", std::to_string(rank).c_str(), 1);
  bind_process(argv[3]);
  try {
    Shared context = connect(rank, ranks, folder);
    // It has no reduce_scatter of this form.
    const Library library = {&context,
                             "Gloo over TCP",
                             {all_reduce, broadcast, reduce, gather, scatter, all_gather, nullptr,
                              all_to_all, send_recv, barrier}};
    drive(argv, rank, ranks, &library);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gloo, rank %d: %s\n", rank, error.what());
    return 1;
  }
}

int run(int argc, char** argv) {
  if (argc != 6 || std::string(argv[1]) != "-n") {
    std::fprintf(stderr, "compare.py starts this program\n");
    return 2;
  }
  const int ranks = std::atoi(argv[2]);
  std::string folder = std::filesystem::temp_directory_path() / "hymn-compare-gloo-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) driver_fail("compare: mkdtemp");
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child < 0) driver_fail("compare: fork");
    if (child == 0) _exit(run_rank(argv + 2, rank, ranks, folder));
  }
  int worst = 0;
  for (int status = 0; wait(&status) > 0;) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (code > worst) worst = code;
  }
  std::filesystem::remove_all(folder);
  return worst;
}

}  // namespace
}  // namespace hymn

int main(int argc, char** argv) { return hymn::run(argc, argv); }
