// A GPU of this machine, for tests: memory, streams and graphs, through the driver as hymn
// has loaded it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "gpu/gpu_device.hpp"
#include "hymn/hymn.hpp"

namespace hymn::test {

/// Why the tests cannot run here; empty: they can.
std::string why_no_gpu();

/// The GPU that all here is about, GPU 0 unless this was called before. Only where why_no_gpu() is
/// empty.
GpuDevice& real_gpu();
void choose_real_gpu(int index);

/// Throws BackendError where the driver's function fails; for those that hymn itself does not use.
void call_driver(const char* function, cuda_api::Result result);
/// A function of the driver by its name.
void* driver_function(const char* name);

/// Runs `body` in a world of one rank, on a group that may only use NCCL.
inline void alone(const std::function<void(ProcessGroup&)>& body) {
  run_ranks(1, [&](World& world) {
    ProcessGroup group = world.new_group({0}, {.path = "nccl"});
    body(group);
  });
}

/// A buffer in its memory.
class RealMemory {
 public:
  explicit RealMemory(std::size_t bytes);
  ~RealMemory();
  RealMemory(const RealMemory&) = delete;
  RealMemory& operator=(const RealMemory&) = delete;
  cuda_api::Pointer address() const { return address_; }
  void* pointer() const { return reinterpret_cast<void*>(address_); }
  void write(const void* from, std::size_t bytes);
  void read(void* to, std::size_t bytes) const;

 private:
  cuda_api::Pointer address_ = 0;
};

template <class T>
class RealBuffer {
 public:
  explicit RealBuffer(const std::vector<T>& values)
      : count_(values.size()), memory_(values.size() * sizeof(T)) {
    memory_.write(values.data(), count_ * sizeof(T));
  }
  /// Says nothing of where it is: that is found out.
  BufferView view() const { return {memory_.pointer(), count_, data_type_of<T>}; }
  RealMemory& memory() { return memory_; }
  cuda_api::Pointer address() const { return memory_.address(); }
  /// Waits for nothing: what writes to it must have ended.
  std::vector<T> values() const {
    std::vector<T> found(count_);
    memory_.read(found.data(), count_ * sizeof(T));
    return found;
  }

 private:
  std::size_t count_;
  RealMemory memory_;
};

/// A stream of it.
class RealStream {
 public:
  RealStream();
  ~RealStream();
  RealStream(const RealStream&) = delete;
  RealStream& operator=(const RealStream&) = delete;
  cuda_api::Stream get() const { return stream_; }
  void synchronize() const;
  /// Enqueues copies between buffers of the GPU.
  void copy(cuda_api::Pointer to, cuda_api::Pointer from, std::size_t bytes) const;
  /// Nothing behind this goes on before `flag`, 32 bits in GPU memory, holds the value.
  void await_value(cuda_api::Pointer flag, std::uint32_t value) const;

 private:
  cuda_api::Stream stream_ = nullptr;
};

/// What a stream is given while this lives goes into a graph instead, which can then be launched.
class RealCapture {
 public:
  explicit RealCapture(const RealStream& stream);
  ~RealCapture();
  RealCapture(const RealCapture&) = delete;
  RealCapture& operator=(const RealCapture&) = delete;
  void end();
  void launch() const;

 private:
  const RealStream& stream_;
  cuda_api::Graph graph_ = nullptr;
  cuda_api::GraphExec executable_ = nullptr;
};

}  // namespace hymn::test
