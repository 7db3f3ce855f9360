#include "tests/gpu/real_gpu.hpp"

#include <dlfcn.h>

#include "gpu/cuda_calls.hpp"
#include "gpu/presence.hpp"

namespace hymn::test {
namespace {

using namespace cuda_api;

int chosen = 0;

const cuda_api::Functions& cuda() { return loaded_gpu_functions().cuda; }

template <class... Parameters, class... Arguments>
void run(const char* name, Result (*)(Parameters...), Arguments... arguments) {
  using Pointer = Result (*)(Parameters...);
  call_driver(name, reinterpret_cast<Pointer>(driver_function(name))(arguments...));
}
template <class... Parameters>
constexpr Result (*takes)(Parameters...) = nullptr;

}  // namespace

std::string why_no_gpu() {
  if (std::string why = why_no_gpus(loaded_gpu_functions()); !why.empty()) return why;
  return loaded_nccl().problem;
}

GpuDevice& real_gpu() {
  static GpuDevice gpu(cuda(), chosen);
  return gpu;
}

void choose_real_gpu(int index) { chosen = index; }

void call_driver(const char* function, Result result) {
  if (result != success) throw_cuda_error(cuda(), function, result);
}

void* driver_function(const char* name) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  void* const found = dlsym(library, name);
  if (found == nullptr) throw_lacking("libcuda.so.1", name);
  return found;
}

RealMemory::RealMemory(std::size_t bytes) {
  const GpuDevice::Entry entry(real_gpu());
  call(cuda(), cuda().allocate, &address_, bytes);
}

RealMemory::~RealMemory() {
  const GpuDevice::Entry entry(real_gpu());
  cuda().release.pointer(address_);
}

void RealMemory::write(const void* from, std::size_t bytes) {
  const GpuDevice::Entry entry(real_gpu());
  call(cuda(), cuda().to_gpu, address_, from, bytes);
}

void RealMemory::read(void* to, std::size_t bytes) const {
  const GpuDevice::Entry entry(real_gpu());
  call(cuda(), cuda().to_host, to, address_, bytes);
}

RealStream::RealStream() {
  const GpuDevice::Entry entry(real_gpu());
  call(cuda(), cuda().make_stream, &stream_, stream_non_blocking, 0);
}

RealStream::~RealStream() {
  const GpuDevice::Entry entry(real_gpu());
  cuda().destroy_stream.pointer(stream_);
}

void RealStream::synchronize() const { run("cuStreamSynchronize", takes<Stream>, stream_); }

void RealStream::copy(Pointer to, Pointer from, std::size_t bytes) const {
  call(cuda(), cuda().copy_on, to, from, bytes, stream_);
}

void RealStream::await_value(Pointer flag, std::uint32_t value) const {
  constexpr unsigned equal = 1;
  run("cuStreamWaitValue32_v2", takes<Stream, Pointer, std::uint32_t, unsigned>, stream_, flag,
      value, equal);
}

RealCapture::RealCapture(const RealStream& stream) : stream_(stream) {
  call(cuda(), cuda().begin_capture, stream_.get(), capture_of_thread);
}

RealCapture::~RealCapture() {
  if (executable_ != nullptr) cuda().destroy_graph_exec.pointer(executable_);
  if (graph_ != nullptr) cuda().destroy_graph.pointer(graph_);
}

void RealCapture::end() {
  call(cuda(), cuda().end_capture, stream_.get(), &graph_);
  call(cuda(), cuda().instantiate, &executable_, graph_, 0ull);
}

void RealCapture::launch() const { call(cuda(), cuda().launch_graph, executable_, stream_.get()); }

}  // namespace hymn::test
