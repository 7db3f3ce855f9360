// A driver that knows allocations which the test makes up.
#pragma once

#include <mutex>
#include <optional>
#include <vector>

#include "gpu/memory_query.hpp"

namespace hymn::test {

/// One at a time: the driver's functions know no other. Allocations may come and go on any thread.
class FakeMemory {
 public:
  FakeMemory();
  ~FakeMemory();
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  void allocate(MemoryAt memory);
  /// `begin` as it was given to allocate().
  void free(std::uintptr_t begin);
  /// What is there; nothing: no allocation.
  std::optional<MemoryAt> at(const void* pointer);

  cuda_api::Functions functions;
  cuda_api::Result failure = cuda_api::success;  ///< of what asks for all attributes
  int asked_all = 0;                             ///< calls that ask for all attributes
  int asked_id = 0;

 private:
  struct Allocation {
    MemoryAt memory;
    unsigned long long id;
  };
  static cuda_api::Result get_one(void* answer, cuda_api::PointerAttribute attribute,
                                  cuda_api::Pointer pointer);
  static cuda_api::Result get_all(unsigned count, cuda_api::PointerAttribute* attributes,
                                  void** answers, cuda_api::Pointer pointer);
  const Allocation* find(cuda_api::Pointer pointer) const;

  std::mutex mutex_;
  std::vector<Allocation> allocations_;
  unsigned long long last_id_ = 0;
};

}  // namespace hymn::test
