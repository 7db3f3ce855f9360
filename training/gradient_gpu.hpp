// One GPU on which gradients lie: its memory, and the stream of their averages beside the streams
// of the framework.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/device_memory.hpp"
#include "hymn/buffer.hpp"

namespace hymn::training::detail {

/// The stream that gradients of that GPU are computed on now.
using StreamOf = std::function<void*(int gpu)>;

/// What is put into memory, taken from there and cleared is enqueued on the framework's stream of
/// the moment; averages are on another one, which waits for that, and which that waits for: so the
/// framework goes on while they are made, and the host waits for neither.
///
/// One caller at a time; but memory may be let go by any thread.
class GradientGpu : public std::enable_shared_from_this<GradientGpu> {
 public:
  /// `stream_of`: empty: the legacy default stream.
  GradientGpu(std::shared_ptr<GpuDevice> gpu, StreamOf stream_of);
  ~GradientGpu();
  GradientGpu(const GradientGpu&) = delete;
  GradientGpu& operator=(const GradientGpu&) = delete;

  /// Zeros. When its owner is gone it is released in the order of the averages: the host waits for
  /// nothing. Where the GPU has no memory pools it is kept until this object ends, and only freed
  /// if nothing works on it then: a driver that frees waits for all that the GPU does, and so for
  /// other ranks. Throws BackendError.
  std::shared_ptr<void> allocate(std::size_t bytes);
  void copy(const BufferView& from, const BufferView& to);
  void clear(const BufferView& view);
  /// A copy in memory of the host; waits for what is enqueued for the averages.
  std::vector<std::byte> read(const BufferView& view);

  /// The framework's stream of the moment has to do with gradients: it comes after the averages
  /// that were made in earlier iterations.
  void touch() { (void)touched_stream(); }
  /// Where averages are enqueued: what is enqueued there from now on comes after all that the
  /// framework's streams hold that have been touched.
  cuda_api::Stream averages();
  /// The framework's stream of the moment waits for all that is enqueued for averages.
  void hand_over();
  /// What was put and taken comes before later averages, and before memory is let go.
  void settle();

 private:
  class Block;
  cuda_api::Stream framework_stream() const;
  void require_usable(cuda_api::Stream stream);
  cuda_api::Stream touched_stream();
  void order(cuda_api::Stream earlier, cuda_api::Stream later);
  /// Whether nothing works on what was kept; waits for that a little.
  bool may_free() noexcept;
  /// By the owner of this memory, on whatever thread that ends.
  void let_go(cuda_api::Pointer memory, DeviceMemory without_pools) noexcept;

  const std::shared_ptr<GpuDevice> gpu_;
  const StreamOf stream_of_;
  const cuda_api::Stream averages_;
  const bool has_pools_;
  std::vector<cuda_api::Stream> touched_;    ///< in this iteration
  std::vector<cuda_api::Stream> unsettled_;  ///< of these, what averages do not come after yet

  std::mutex mutex_;                   // guards what follows
  std::vector<DeviceMemory> remains_;  ///< without pools: what was let go
};

}  // namespace hymn::training::detail
