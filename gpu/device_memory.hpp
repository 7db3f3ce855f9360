// Memory of one GPU that hymn itself allocates.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "base/private.hpp"
#include "gpu/gpu_device.hpp"

namespace hymn {

/// Movable; empty by default. Its copies run on a stream of their own: they wait for nothing else,
/// and what uses the memory must have ended, or not have begun.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// Of 0 bytes: none. Throws BackendError where there is not so much.
  HYMN_PRIVATE DeviceMemory(std::shared_ptr<GpuDevice> gpu, std::size_t bytes);
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(gpu_, other.gpu_);
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  HYMN_PRIVATE ~DeviceMemory();

  cuda_api::Pointer address() const { return address_; }
  void* data() const { return reinterpret_cast<void*>(address_); }
  std::size_t bytes() const { return bytes_; }

  /// The first `bytes` of it; returns when they are there. Throws BackendError.
  HYMN_PRIVATE void write(const void* from, std::size_t bytes);
  HYMN_PRIVATE void read(void* to, std::size_t bytes) const;

 private:
  void await_copies(cuda_api::Stream stream) const;

  std::shared_ptr<GpuDevice> gpu_;
  cuda_api::Pointer address_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace hymn
