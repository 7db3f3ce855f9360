// Memory of toy GPUs that other processes can reach, as they reach that of real ones by handles of
// CUDA's IPC. Nothing has a name: it is gone with the last process that uses it.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

#include "gpu/cuda_api.hpp"

namespace hymn::test {

/// Thread-safe.
class ToySharedMemory {
 public:
  /// Of zeros. Throws std::runtime_error where there is none.
  void* allocate(std::size_t bytes);
  void free(void* pointer);
  /// What another process, of the same user, can open() as long as this one has not freed it.
  cuda_api::IpcHandle handle_of(const void* pointer) const;
  /// Null: it is gone.
  void* open(const cuda_api::IpcHandle& handle);
  void close(void* pointer);

 private:
  struct Piece {
    int file = -1;  ///< -1: it belongs to another process
    std::size_t bytes = 0;
  };
  void* map(Piece piece, int file);
  void unmap(void* pointer);

  mutable std::mutex mutex_;
  std::map<const void*, Piece> pieces_;
};

}  // namespace hymn::test
