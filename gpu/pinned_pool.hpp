// Pinned memory of the host, which GPUs copy from and to at full speed, kept to be used again:
// pinning takes far longer than copying.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/gpu_device.hpp"

namespace hymn {

/// Thread-safe.
class PinnedPool {
 public:
  explicit PinnedPool(std::shared_ptr<GpuDevice> gpu) : gpu_(std::move(gpu)) {}
  ~PinnedPool();
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  struct Block {
    void* data = nullptr;
    std::size_t bytes = 0;  ///< as many as were asked for, or more
  };
  /// Throws BackendError when there is no more.
  Block take(std::size_t bytes);
  void give_back(Block block);

 private:
  std::shared_ptr<GpuDevice> gpu_;
  std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  // by size
  std::size_t free_bytes_ = 0;
};

}  // namespace hymn
