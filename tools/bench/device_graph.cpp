#include "tools/bench/device_graph.hpp"

#include "gpu/cuda_calls.hpp"

namespace hymn {

using namespace cuda_api;

DeviceGraph::DeviceGraph(GpuDevice& gpu, Stream stream, const std::function<void()>& enqueue)
    : cuda_(gpu.cuda()) {
  hymn::call(cuda_, cuda_.begin_capture, stream, capture_of_thread);
  Graph graph = nullptr;
  try {
    enqueue();
  } catch (...) {
    if (cuda_.end_capture.pointer(stream, &graph) == success) cuda_.destroy_graph.pointer(graph);
    throw;
  }
  hymn::call(cuda_, cuda_.end_capture, stream, &graph);
  const Result made = cuda_.instantiate.pointer(&executable_, graph, 0);
  cuda_.destroy_graph.pointer(graph);
  if (made != success) throw_cuda_error(cuda_, cuda_.instantiate.name, made);
}

DeviceGraph::~DeviceGraph() { cuda_.destroy_graph_exec.pointer(executable_); }

void DeviceGraph::launch(Stream stream) const {
  hymn::call(cuda_, cuda_.launch_graph, executable_, stream);
}

}  // namespace hymn
