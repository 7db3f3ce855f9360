// Looks for a NaN in the memory of a GPU, on the GPU.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

#include "collectives/cuda/gpu_kernels.hpp"
#include "gpu/pinned_pool.hpp"
#include "hymn/buffer.hpp"

namespace hymn::cuda {

/// Thread-safe.
class DeviceNan {
 public:
  explicit DeviceNan(const std::shared_ptr<GpuDevice>& gpu) : kernels_(gpu), words_(gpu) {}
  ~DeviceNan();
  DeviceNan(const DeviceNan&) = delete;
  DeviceNan& operator=(const DeviceNan&) = delete;

  /// Loads the kernels, where they are not yet: they must be there before others wait on the GPU.
  void load() { kernels_.load(); }

  /// One search that is under way. It may be given up.
  class Search {
   public:
    Search(DeviceNan& home, const ConstBufferView& view, cuda_api::Stream stream);
    ~Search();
    Search(const Search&) = delete;
    Search& operator=(const Search&) = delete;

    /// Whether the GPU has looked at all. Never blocks. Throws BackendError when the GPU has
    /// failed.
    bool is_done() const { return home_.kernels_.gpu().has_happened(event_); }
    /// Once it is done: as find_nan() of collectives/reduce.
    std::size_t result() const;

   private:
    friend class DeviceNan;
    DeviceNan& home_;
    const ConstBufferView view_;
    PinnedPool::Block word_;
    cuda_api::Event event_ = nullptr;
  };

 private:
  /// Of a search that was given up: the GPU may still write there.
  struct Word {
    PinnedPool::Block block;
    cuda_api::Event event;
  };
  bool reclaim(const Word& word) noexcept;

  GpuKernels kernels_;
  PinnedPool words_;
  std::mutex mutex_;
  std::vector<Word> given_up_;
};

}  // namespace hymn::cuda
