// mpirun -n 4 gpu_allreduce: every rank gets the sum of what all ranks have on their GPUs.
#include <cuda_runtime.h>
#include <cstdio>
#include <hymn/hymn.hpp>
#include <vector>

int main() try {
  hymn::World world({.path = "nccl"});  // an error that says so where there is no GPU for each rank
  std::vector<float> values(1000, static_cast<float>(world.rank() + 1));
  const std::size_t bytes = values.size() * sizeof(float);
  void* on_gpu = nullptr;
  cudaStream_t stream = nullptr;
  cudaSetDevice(world.gpu());
  cudaMalloc(&on_gpu, bytes);
  cudaStreamCreate(&stream);
  cudaMemcpyAsync(on_gpu, values.data(), bytes, cudaMemcpyHostToDevice, stream);
  hymn::BufferView view(on_gpu, values.size(), hymn::DataType::float32);
  world.group().all_reduce(view, hymn::ReduceOp::sum, {.stream = stream});
  cudaMemcpyAsync(values.data(), on_gpu, bytes, cudaMemcpyDeviceToHost, stream);
  if (const cudaError_t error = cudaStreamSynchronize(stream); error != cudaSuccess) {
    std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
    return 1;
  }
  std::printf("rank %d of %d has %g\n", world.rank(), world.size(), values.front());
} catch (const hymn::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
