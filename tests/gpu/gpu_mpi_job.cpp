// A job over MPI whose rank 1 is killed while the kernels of the others wait for it on their GPUs.
// Each survivor prints whom its error names, and that its GPU is idle again.
#include <csignal>
#include <cstdio>
#include <string>

#include <unistd.h>

#include "tests/gpu/real_gpu.hpp"

using namespace hymn;
using namespace hymn::test;

int main() {
  World world;
  choose_real_gpu(world.gpu());
  ProcessGroup group = world.new_group(world.group().membership().ranks, {.path = "cuda_p2p,shm"});
  const RealBuffer<float> buffer(std::vector<float>(64, 1.0F));
  try {
    group.all_reduce(buffer.view());
    // Others may still be in it.
    if (world.rank() == 1) kill(getpid(), SIGKILL);
    group.all_reduce(buffer.view());
  } catch (const Error& error) {
    const GpuDevice::Entry entry(real_gpu());
    call_driver("cuCtxSynchronize", real_gpu().cuda().synchronize.pointer());
    std::string line = "rank " + std::to_string(world.rank()) + " misses";
    for (const int rank : error.context().missing) line += " " + std::to_string(rank);
    std::puts((line + ", and its GPU is idle").c_str());
    std::fflush(stdout);
    _exit(0);  // there is nobody to meet at the end
  }
  return 1;
}
