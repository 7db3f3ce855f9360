#include "gpu/pinned_pool.hpp"

#include <algorithm>
#include <bit>

#include "gpu/cuda_calls.hpp"

namespace hymn {
namespace {

constexpr std::size_t smallest_block = 4096;
// What is unused beyond this is unpinned: it is memory that nobody else can have.
constexpr std::size_t most_kept = std::size_t{256} << 20;

}  // namespace

PinnedPool::~PinnedPool() {
  const RelaxedCapture relaxed(gpu_->cuda());
  for (const auto& [bytes, blocks] : free_)
    for (void* const data : blocks) gpu_->cuda().free_pinned.pointer(data);
}

PinnedPool::Block PinnedPool::take(std::size_t bytes) {
  const std::size_t size = std::bit_ceil(std::max(bytes, smallest_block));
  {
    std::lock_guard lock(mutex_);
    if (auto& blocks = free_[size]; !blocks.empty()) {
      void* const data = blocks.back();
      blocks.pop_back();
      free_bytes_ -= size;
      return {data, size};
    }
  }
  const GpuDevice::Entry entry(*gpu_);
  void* data = nullptr;
  constexpr unsigned plainly_pinned = 0;
  call(gpu_->cuda(), gpu_->cuda().allocate_pinned, &data, size, plainly_pinned);
  return {data, size};
}

void PinnedPool::give_back(Block block) {
  {
    std::lock_guard lock(mutex_);
    if (free_bytes_ + block.bytes <= most_kept) {
      free_[block.bytes].push_back(block.data);
      free_bytes_ += block.bytes;
      return;
    }
  }
  const RelaxedCapture relaxed(gpu_->cuda());
  gpu_->cuda().free_pinned.pointer(block.data);
}

}  // namespace hymn
