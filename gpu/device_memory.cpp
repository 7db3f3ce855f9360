#include "gpu/device_memory.hpp"

#include <thread>

#include "gpu/cuda_calls.hpp"

namespace hymn {

DeviceMemory::DeviceMemory(std::shared_ptr<GpuDevice> gpu, std::size_t bytes)
    : gpu_(std::move(gpu)), bytes_(bytes) {
  if (bytes == 0) return;
  const GpuDevice::Entry entry(*gpu_);
  call(gpu_->cuda(), gpu_->cuda().allocate, &address_, bytes);
}

// The driver may be gone by now, at the end of the process: nothing is done about failures.
DeviceMemory::~DeviceMemory() {
  if (address_ == 0) return;
  try {
    const GpuDevice::Entry entry(*gpu_);
    call(gpu_->cuda(), gpu_->cuda().release, address_);
  } catch (...) {  // NOLINT: see above
  }
}

void DeviceMemory::write(const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  const GpuDevice::Entry entry(*gpu_);
  const cuda_api::Stream stream = gpu_->stream_for_copies();
  call(gpu_->cuda(), gpu_->cuda().to_gpu_on, address_, from, bytes, stream);
  await_copies(stream);
}

void DeviceMemory::read(void* to, std::size_t bytes) const {
  if (bytes == 0) return;
  const GpuDevice::Entry entry(*gpu_);
  const cuda_api::Stream stream = gpu_->stream_for_copies();
  call(gpu_->cuda(), gpu_->cuda().to_host_on, to, address_, bytes, stream);
  await_copies(stream);
}

void DeviceMemory::await_copies(cuda_api::Stream stream) const {
  const GpuDevice::LentEvent copied(*gpu_, stream);
  while (!copied.has_happened()) std::this_thread::yield();
}

}  // namespace hymn
