// mpirun -n 4 gpu_allreduce: every rank's GPU gets the sum of what all ranks have.
#include <cuda_runtime.h>
#include <algorithm>
#include <cstdio>
#include <hymn/hymn.hpp>

int main() try {
  hymn::World world({.path = "nccl"});  // an error that says so where there is no GPU for each rank
  float* values = nullptr;
  cudaStream_t stream = nullptr;
  cudaSetDevice(world.gpu());
  cudaMallocManaged(&values, 1000 * sizeof(float));
  cudaStreamCreate(&stream);
  std::fill_n(values, 1000, static_cast<float>(world.rank() + 1));
  const hymn::BufferView view(values, 1000, hymn::DataType::float32);
  world.group().all_reduce(view, hymn::ReduceOp::sum, {.stream = stream});
  if (cudaStreamSynchronize(stream) != cudaSuccess) return 1;
  std::printf("rank %d of %d has %g\n", world.rank(), world.size(), values[0]);
} catch (const hymn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
