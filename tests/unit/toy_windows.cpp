// Memory that the toy GPUs' driver gives, and how others reach it. As handles travel between
// processes, an address does here.
#include <cstring>
#include <new>

#include "tests/unit/toy_state.hpp"

namespace hymn::test {
namespace {

using namespace cuda_api;

constexpr std::align_val_t alignment{256};

Result allocate(Pointer* pointer, std::size_t bytes) {
  *pointer = reinterpret_cast<Pointer>(::operator new(bytes, alignment));
  return success;
}
Result release(Pointer pointer) {
  ::operator delete(reinterpret_cast<void*>(pointer), alignment);
  return success;
}
Result fill(Pointer pointer, unsigned char value, std::size_t bytes) {
  std::memset(reinterpret_cast<void*>(pointer), value, bytes);
  return success;
}
Result to_gpu(Pointer to, const void* from, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return success;
}
Result synchronize() { return success; }
Result can_access_peer(int* can, Device, Device) {
  std::lock_guard lock(toy->mutex);
  return *can = toy->has_peer_access ? 1 : 0, success;
}
Result enable_peer_access(Context, unsigned) {
  std::lock_guard lock(toy->mutex);
  return ++toy->counts["enable_peer_access"] == 1 ? success : peer_access_already_enabled;
}

Result get_handle(IpcHandle* handle, Pointer pointer) {
  std::memcpy(handle, &pointer, sizeof(pointer));
  return success;
}
Result open_handle(Pointer* pointer, IpcHandle handle, unsigned) {
  std::memcpy(pointer, &handle, sizeof(*pointer));
  std::lock_guard lock(toy->mutex);
  ++toy->counts["open_handle"];
  const auto failure = toy->failures.find("open_handle");
  return failure == toy->failures.end() ? success : failure->second;
}
Result close_handle(Pointer) {
  std::lock_guard lock(toy->mutex);
  ++toy->counts["close_handle"];
  return success;
}

}  // namespace

void add_toy_windows(cuda_api::Functions& functions) {
  functions.allocate.pointer = allocate;
  functions.release.pointer = release;
  functions.fill.pointer = fill;
  functions.to_gpu.pointer = to_gpu;
  functions.synchronize.pointer = synchronize;
  functions.can_access_peer.pointer = can_access_peer;
  functions.enable_peer_access.pointer = enable_peer_access;
  functions.get_ipc_handle.pointer = get_handle;
  functions.open_ipc_handle.pointer = open_handle;
  functions.close_ipc_handle.pointer = close_handle;
}

}  // namespace hymn::test
