// What kind of memory a pointer points to, as the CUDA driver knows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "gpu/cuda_api.hpp"
#include "hymn/types.hpp"

namespace hymn {

struct MemoryAt {
  MemoryKind kind = MemoryKind::host;
  int gpu = -1;  ///< as the driver numbers them; -1: plain memory of the host
  std::uintptr_t begin =
      0;  ///< of the allocation, which holds `bytes` bytes; plain memory has none
  std::size_t bytes = 0;
  friend bool operator==(const MemoryAt&, const MemoryAt&) = default;
};

/// Asks the driver, and remembers allocations by their addresses.
///
/// The driver gives every allocation an id that it never uses again in the process. What is
/// remembered holds as long as the driver still gives the pointer that id, which is asked each
/// time: one attribute instead of all. So memory that has been freed, and addresses that have come
/// back as something else, are never mistaken. Plain memory of the host has no id and is not
/// remembered.
///
/// Thread-safe.
class MemoryQuery {
 public:
  /// `cuda` must outlive this.
  explicit MemoryQuery(const cuda_api::Functions& cuda) : cuda_(cuda) {}

  /// A thread for which CUDA has nothing yet sees plain memory only. Throws BackendError when the
  /// driver fails.
  MemoryAt at(const void* pointer);

 private:
  struct Known {
    MemoryAt memory;
    unsigned long long id = 0;
  };
  bool is_still(const Known& known, cuda_api::Pointer pointer) const;
  Known ask(cuda_api::Pointer pointer) const;
  void remember(const Known& known);

  const cuda_api::Functions& cuda_;
  std::mutex mutex_;
  std::map<std::uintptr_t, Known> known_;  // by their first address
};

/// That of this process; null where it can use no GPU: then all memory is plain memory of the host.
/// Initialises the driver at the first call. Thread-safe.
MemoryQuery* memory_query();

}  // namespace hymn
