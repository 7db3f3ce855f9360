#include "tests/unit/toy_shared_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

namespace hymn::test {
namespace {

/// What a handle holds: the file as its owner knows it.
struct SharedFile {
  pid_t process = 0;
  int file = -1;
  std::size_t bytes = 0;
};

}  // namespace

void* ToySharedMemory::map(Piece piece, int file) {
  void* const made = mmap(nullptr, piece.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (made == MAP_FAILED) return nullptr;
  const std::lock_guard lock(mutex_);
  pieces_[made] = piece;
  return made;
}

void ToySharedMemory::unmap(void* pointer) {
  const std::lock_guard lock(mutex_);
  const auto found = pieces_.extract(pointer);
  if (found.empty()) return;
  munmap(pointer, found.mapped().bytes);
  if (found.mapped().file >= 0) ::close(found.mapped().file);
}

void* ToySharedMemory::allocate(std::size_t bytes) {
  const Piece piece{memfd_create("toy gpu", MFD_CLOEXEC), std::max<std::size_t>(bytes, 1)};
  if (piece.file < 0 || ftruncate(piece.file, static_cast<off_t>(piece.bytes)) != 0)
    throw std::runtime_error("no memory for a toy GPU");
  void* const made = map(piece, piece.file);
  if (made == nullptr) throw std::runtime_error("no addresses for a toy GPU");
  return made;
}

void ToySharedMemory::free(void* pointer) { unmap(pointer); }

cuda_api::IpcHandle ToySharedMemory::handle_of(const void* pointer) const {
  const std::lock_guard lock(mutex_);
  const Piece& piece = pieces_.at(pointer);
  const SharedFile shared_file{getpid(), piece.file, piece.bytes};
  cuda_api::IpcHandle handle{};
  static_assert(sizeof(shared_file) <= sizeof(handle));
  std::memcpy(&handle, &shared_file, sizeof(shared_file));
  return handle;
}

void* ToySharedMemory::open(const cuda_api::IpcHandle& handle) {
  SharedFile shared_file;
  std::memcpy(static_cast<void*>(&shared_file), &handle, sizeof(shared_file));
  const std::string path =
      "/proc/" + std::to_string(shared_file.process) + "/fd/" + std::to_string(shared_file.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  void* const made = map({.bytes = shared_file.bytes}, file);
  ::close(file);
  return made;
}

void ToySharedMemory::close(void* pointer) { unmap(pointer); }

}  // namespace hymn::test
