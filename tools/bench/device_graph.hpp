// What a stream is given, captured into a CUDA graph.
#pragma once

#include <functional>

#include "gpu/gpu_device.hpp"

namespace hymn {

class DeviceGraph {
 public:
  /// Captures what `enqueue` puts on the stream. To make a graph, and to destroy it, may wait for
  /// all that runs on the GPU. Throws BackendError, and what `enqueue` throws.
  DeviceGraph(GpuDevice& gpu, cuda_api::Stream stream, const std::function<void()>& enqueue);
  ~DeviceGraph();
  DeviceGraph(const DeviceGraph&) = delete;
  DeviceGraph& operator=(const DeviceGraph&) = delete;

  void launch(cuda_api::Stream stream) const;

 private:
  const cuda_api::Functions& cuda_;
  cuda_api::GraphExec executable_ = nullptr;
};

}  // namespace hymn
