// How others reach the memory that the toy GPUs' driver gives. Where all of them are threads of one
// process, an address does as a handle.
#include <cstring>

#include "tests/unit/toy_state.hpp"

namespace hymn::test {
namespace {

using namespace cuda_api;

constexpr Result invalid_handle = 400;

Result to_gpu(Pointer to, const void* from, std::size_t bytes) {
  {
    std::lock_guard lock(toy->mutex);
    if (const Result result = toy_unsafe("cuMemcpyHtoD"); result != success) return result;
  }
  std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  return success;
}
Result synchronize() {
  std::lock_guard lock(toy->mutex);
  return toy_unsafe("cuCtxSynchronize");
}
Result can_access_peer(int* can, Device, Device) {
  std::lock_guard lock(toy->mutex);
  return *can = toy->has_peer_access ? 1 : 0, success;
}
Result enable_peer_access(Context, unsigned) {
  std::lock_guard lock(toy->mutex);
  return ++toy->counts["enable_peer_access"] == 1 ? success : peer_access_already_enabled;
}

Result get_handle(IpcHandle* handle, Pointer pointer) {
  if (toy->shared)
    *handle = toy->shared->handle_of(reinterpret_cast<const void*>(pointer));
  else
    std::memcpy(handle, &pointer, sizeof(pointer));
  return success;
}
Result open_handle(Pointer* pointer, IpcHandle handle, unsigned) {
  if (toy->shared)
    *pointer = reinterpret_cast<Pointer>(toy->shared->open(handle));
  else
    std::memcpy(pointer, &handle, sizeof(*pointer));
  if (*pointer == 0) return invalid_handle;
  std::lock_guard lock(toy->mutex);
  ++toy->counts["open_handle"];
  const auto failure = toy->failures.find("open_handle");
  return failure == toy->failures.end() ? success : failure->second;
}
Result close_handle(Pointer pointer) {
  if (toy->shared) toy->shared->close(reinterpret_cast<void*>(pointer));
  std::lock_guard lock(toy->mutex);
  ++toy->counts["close_handle"];
  return success;
}

}  // namespace

void add_toy_ipc_staging(cuda_api::Functions& functions) {
  functions.to_gpu.pointer = to_gpu;
  functions.synchronize.pointer = synchronize;
  functions.can_access_peer.pointer = can_access_peer;
  functions.enable_peer_access.pointer = enable_peer_access;
  functions.get_ipc_handle.pointer = get_handle;
  functions.open_ipc_handle.pointer = open_handle;
  functions.close_ipc_handle.pointer = close_handle;
}

}  // namespace hymn::test
