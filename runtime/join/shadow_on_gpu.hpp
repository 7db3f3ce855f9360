// The buffers of a shadowed call, moved to the memory of this rank's GPU: where those that make the
// call themselves have theirs.
#pragma once

#include <memory>
#include <vector>

#include "collectives/located_request.hpp"
#include "gpu/device_memory.hpp"
#include "recorder/call_record.hpp"

namespace hymn {

/// Throws UnsupportedError.
[[noreturn]] void refuse_on_gpu(const CallRecord& coalesced);

class ShadowOnGpu {
 public:
  /// `on_host` as ShadowCall has made it of the record, with its inputs; `spare` is taken where it
  /// is large enough. Waits for its copies, and for nothing else of the GPU. Throws BackendError.
  ShadowOnGpu(const Request& on_host, std::shared_ptr<GpuDevice> gpu,
              std::vector<DeviceMemory>& spare);

  /// The views in it are of this object's memory.
  const Request& request() const { return located_.request; }
  /// For the next ones, when the call has completed: freeing could wait for other calls.
  void give_back(std::vector<DeviceMemory>& spare);

 private:
  DeviceMemory take(std::size_t bytes, std::vector<DeviceMemory>& spare) const;

  std::shared_ptr<GpuDevice> gpu_;
  LocatedRequest located_;
  DeviceMemory given_;
  DeviceMemory taken_;
};

}  // namespace hymn
