// A libcuda.so.1 of toy GPUs (tests/unit/toy_gpus.hpp), for programs that load the driver as on a
// machine with GPUs; other processes open its memory by handles. TOY_GPUS: how many, 2 by default;
// TOY_VISIBLE: the one that this process sees alone, as by CUDA_VISIBLE_DEVICES.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "tests/unit/toy_state.hpp"

using namespace hymn::cuda_api;  // UBSan compares types at each call through a pointer
using hymn::test::toy;
using hymn::test::ToyState;
using hymn::test::ToyStream;

namespace {

const Functions& functions() {
  static const Functions all = [] {
    static ToyState& state = *new ToyState;  // kernels may run until the process has ended
    const char* const gpus = std::getenv("TOY_GPUS");
    state.gpus = gpus == nullptr ? 2 : static_cast<int>(std::strtol(gpus, nullptr, 10));
    if (const char* const visible = std::getenv("TOY_VISIBLE"); visible != nullptr) {
      state.first_visible = static_cast<int>(std::strtol(visible, nullptr, 10));
      state.gpus = 1;
    }
    state.shared = std::make_unique<hymn::test::ToySharedMemory>();
    toy = &state;
    return hymn::test::toy_cuda(state);
  }();
  return all;
}

ToyStream& stream_of(Stream stream) { return *static_cast<ToyStream*>(static_cast<void*>(stream)); }

/// Until this holds under the lock, while all that can be done is done.
template <class Holds>
Result wait_until(Holds holds) {
  for (;;) {
    {
      const std::lock_guard lock(toy->mutex);
      toy->progress();
      if (holds()) return success;
    }
    std::this_thread::yield();
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

Result cuInit(unsigned flags) { return functions().init.pointer(flags); }
Result cuGetErrorName(Result, const char** name) { return *name = "CUDA_ERROR_OF_TOYS", success; }
Result cuDriverGetVersion(int* version) { return *version = 13000, success; }
Result cuDeviceGetCount(int* count) { return functions().count.pointer(count); }
Result cuDeviceGet(Device* device, int index) { return functions().device.pointer(device, index); }
Result cuDeviceGetUuid_v2(Uuid* uuid, Device device) {
  return functions().uuid.pointer(uuid, device);
}
Result cuDeviceGetName(char* name, int length, Device) {
  return std::snprintf(name, static_cast<std::size_t>(length), "Toy GPU"), success;
}
Result cuDeviceTotalMem_v2(std::size_t* bytes, Device) {
  return *bytes = std::size_t{1} << 30, success;
}
Result cuDeviceGetAttribute(int* value, int which, Device) {
  *value = which == attribute_multiprocessors ? hymn::test::multiprocessors_of_toy_gpu : 9;
  return success;
}
Result cuDeviceGetPCIBusId(char* text, int length, Device device) {
  std::snprintf(text, static_cast<std::size_t>(length), "0000:%02x:00.0", device);
  return success;
}
Result cuDeviceCanAccessPeer(int* can, Device own, Device other) {
  return functions().can_access_peer.pointer(can, own, other);
}
Result cuDevicePrimaryCtxRetain(Context* context, Device device) {
  return functions().retain_context.pointer(context, device);
}
Result cuDevicePrimaryCtxRelease_v2(Device device) {
  return functions().release_context.pointer(device);
}
Result cuCtxSetCurrent(Context context) { return functions().set_context.pointer(context); }
Result cuCtxPushCurrent_v2(Context context) { return functions().push_context.pointer(context); }
Result cuCtxPopCurrent_v2(Context* context) { return functions().pop_context.pointer(context); }
Result cuCtxEnablePeerAccess(Context context, unsigned flags) {
  return functions().enable_peer_access.pointer(context, flags);
}
Result cuCtxSynchronize() {
  return wait_until([] {
    for (const ToyStream& stream : toy->streams)
      if (!stream.tasks.empty()) return false;
    return toy->is_idle_aside();
  });
}
Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  return functions().priorities.pointer(least, greatest);
}

Result cuMemAlloc_v2(Pointer* pointer, std::size_t bytes) {
  return functions().allocate.pointer(pointer, bytes);
}
Result cuMemFree_v2(Pointer pointer) { return functions().release.pointer(pointer); }
Result cuMemsetD8_v2(Pointer pointer, unsigned char value, std::size_t bytes) {
  return functions().fill.pointer(pointer, value, bytes);
}
Result cuMemcpyHtoD_v2(Pointer to, const void* from, std::size_t bytes) {
  return functions().to_gpu.pointer(to, from, bytes);
}
Result cuMemcpyDtoH_v2(void* to, Pointer from, std::size_t bytes) {
  return std::memcpy(to, reinterpret_cast<const void*>(from), bytes), success;
}
Result cuMemHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  return functions().allocate_pinned.pointer(pointer, bytes, flags);
}
Result cuMemFreeHost(void* pointer) { return functions().free_pinned.pointer(pointer); }
Result cuMemcpyHtoDAsync_v2(Pointer to, const void* from, std::size_t bytes, Stream stream) {
  return functions().to_gpu_on.pointer(to, from, bytes, stream);
}
Result cuMemcpyDtoHAsync_v2(void* to, Pointer from, std::size_t bytes, Stream stream) {
  return functions().to_host_on.pointer(to, from, bytes, stream);
}
Result cuMemcpyDtoDAsync_v2(Pointer to, Pointer from, std::size_t bytes, Stream stream) {
  return functions().copy_on.pointer(to, from, bytes, stream);
}
Result cuPointerGetAttribute(void* answer, PointerAttribute attribute, Pointer pointer) {
  return functions().pointer_attribute.pointer(answer, attribute, pointer);
}
Result cuPointerGetAttributes(unsigned count, PointerAttribute* attributes, void** answers,
                              Pointer pointer) {
  return functions().pointer_attributes.pointer(count, attributes, answers, pointer);
}
Result cuIpcGetMemHandle(IpcHandle* handle, Pointer pointer) {
  return functions().get_ipc_handle.pointer(handle, pointer);
}
Result cuIpcOpenMemHandle_v2(Pointer* pointer, IpcHandle handle, unsigned flags) {
  return functions().open_ipc_handle.pointer(pointer, handle, flags);
}
Result cuIpcCloseMemHandle(Pointer pointer) {
  return functions().close_ipc_handle.pointer(pointer);
}

Result cuStreamCreateWithPriority(Stream* stream, unsigned flags, int priority) {
  return functions().make_stream.pointer(stream, flags, priority);
}
Result cuStreamDestroy_v2(Stream stream) { return functions().destroy_stream.pointer(stream); }
Result cuStreamGetCtx(Stream stream, Context* context) {
  return functions().context_of_stream.pointer(stream, context);
}
Result cuStreamIsCapturing(Stream stream, CaptureStatus* status) {
  return functions().is_capturing.pointer(stream, status);
}
Result cuStreamWaitEvent(Stream stream, Event event, unsigned flags) {
  return functions().wait_event.pointer(stream, event, flags);
}
Result cuStreamSynchronize(Stream stream) {
  return wait_until([stream] { return stream_of(stream).tasks.empty(); });
}
Result cuStreamBeginCapture_v2(Stream stream, int mode) {
  const std::lock_guard lock(toy->mutex);
  hymn::test::toy_begin_capture(stream_of(stream), mode);
  stream_of(stream).graph.clear();
  return success;
}
// A graph, also when it can be launched, is the stream from which it was captured.
Result cuStreamEndCapture(Stream stream, void** graph) {
  const std::lock_guard lock(toy->mutex);
  stream_of(stream).is_capturing = false;
  if (stream_of(stream).is_broken) return stream_capture_invalidated;
  *graph = stream;
  return success;
}
Result cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long) {
  return *executable = graph, success;
}
Result cuGraphLaunch(void* executable, Stream stream) {
  const std::lock_guard lock(toy->mutex);
  for (const hymn::test::ToyTask& task : static_cast<ToyStream*>(executable)->graph)
    hymn::test::toy_enqueue(stream, task);
  return success;
}
Result cuGraphExecDestroy(void*) { return success; }
Result cuGraphDestroy(void*) { return success; }

Result cuStreamGetId(Stream stream, unsigned long long* id) {
  return functions().id_of_stream.pointer(stream, id);
}
Result cuThreadExchangeStreamCaptureMode(CaptureMode* mode) {
  return functions().exchange_capture_mode.pointer(mode);
}

Result cuEventCreate(Event* event, unsigned flags) {
  return functions().make_event.pointer(event, flags);
}
Result cuEventDestroy_v2(Event event) { return functions().destroy_event.pointer(event); }
Result cuEventRecord(Event event, Stream stream) {
  return functions().record_event.pointer(event, stream);
}
Result cuEventQuery(Event event) { return functions().query_event.pointer(event); }
Result cuEventElapsedTime(float* milliseconds, Event from, Event to) {
  return functions().elapsed.pointer(milliseconds, from, to);
}

Result cuModuleLoadData(Module* module, const void* image) {
  return functions().load_module.pointer(module, image);
}
Result cuModuleUnload(Module module) { return functions().unload_module.pointer(module); }
Result cuModuleGetFunction(Kernel* kernel, Module module, const char* name) {
  return functions().kernel_of_module.pointer(kernel, module, name);
}
Result cuFuncLoad(Kernel kernel) { return functions().load_kernel.pointer(kernel); }
Result cuLaunchKernel(Kernel kernel, unsigned blocks, unsigned y, unsigned z, unsigned threads,
                      unsigned threads_y, unsigned threads_z, unsigned shared_bytes, Stream stream,
                      void** arguments, void** further) {
  return functions().launch.pointer(kernel, blocks, y, z, threads, threads_y, threads_z,
                                    shared_bytes, stream, arguments, further);
}

}  // extern "C"
