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
  /// Waits for what still uses memory that was let go, for some seconds; what is in use then stays
  /// for ever.
  ~GradientGpu();
  GradientGpu(const GradientGpu&) = delete;
  GradientGpu& operator=(const GradientGpu&) = delete;

  /// Zeros. Freed when its owner is gone and nothing that was enqueued before works on it. Throws
  /// BackendError.
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
  struct Remains {
    DeviceMemory memory;
    cuda_api::Event last = nullptr;  ///< of what may work on it
  };
  cuda_api::Stream framework_stream() const;
  cuda_api::Stream touched_stream();
  void order(cuda_api::Stream earlier, cuda_api::Stream later);
  void let_go(DeviceMemory memory) noexcept;
  static void keep(DeviceMemory memory);
  /// Frees what nothing works on any more; whether nothing is left.
  bool sweep() noexcept;

  const std::shared_ptr<GpuDevice> gpu_;
  const StreamOf stream_of_;
  const cuda_api::Stream averages_;
  std::vector<cuda_api::Stream> touched_;    ///< in this iteration
  std::vector<cuda_api::Stream> unsettled_;  ///< of these, what averages do not come after yet

  std::mutex mutex_;  // guards what follows
  std::vector<Remains> remains_;
};

}  // namespace hymn::training::detail
