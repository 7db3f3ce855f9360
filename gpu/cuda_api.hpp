// What hymn uses of the CUDA Driver API: names and values are those of its reference
// (docs.nvidia.com).
#pragma once

#include <array>
#include <cstddef>

#include "gpu/function.hpp"

namespace hymn::cuda_api {

using Result = int;
using Device = int;
using Pointer = unsigned long long;  ///< to memory of a GPU
using Context = struct ContextHandle*;
using Stream = struct StreamHandle*;
using Event = struct EventHandle*;
using Module = struct ModuleHandle*;  ///< kernels, loaded for one context
using Kernel = struct KernelHandle*;
using Graph = struct GraphHandle*;          ///< what a stream was given while it was captured
using GraphExec = struct GraphExecHandle*;  ///< which can be launched
struct Uuid {
  std::array<unsigned char, 16> bytes;
};
/// Of an allocation, for other processes of the host.
struct IpcHandle {
  std::array<char, 64> reserved;
};
constexpr Result success = 0;
constexpr Result out_of_memory = 2;
constexpr Result not_initialized = 3;
constexpr Result deinitialized = 4;
constexpr Result stub_library = 34;
constexpr Result no_device = 100;
constexpr Result invalid_device = 101;
constexpr Result invalid_context = 201;
constexpr Result no_binary_for_gpu = 209;
constexpr Result uncorrectable_ecc = 214;
constexpr Result unsupported_ptx = 222;
constexpr Result illegal_address = 700;
constexpr Result peer_access_already_enabled = 704;
constexpr Result not_ready = 600;
constexpr Result launch_failed = 719;
constexpr Result system_not_ready = 802;
constexpr Result driver_mismatch = 803;
constexpr Result stream_capture_unsupported = 900;
constexpr Result stream_capture_invalidated = 901;
constexpr int attribute_multiprocessors = 16;
constexpr int attribute_compute_major = 75;
constexpr int attribute_compute_minor = 76;
constexpr int attribute_memory_pools = 115;  // whether allocate_on works

/// What can be asked of a pointer.
using PointerAttribute = int;
constexpr PointerAttribute attribute_memory_type = 2;   // unsigned: one of the values below
constexpr PointerAttribute attribute_buffer_id = 7;     // unsigned long long
constexpr PointerAttribute attribute_is_managed = 8;    // unsigned: 0 or 1
constexpr PointerAttribute attribute_gpu = 9;           // int
constexpr PointerAttribute attribute_range_begin = 11;  // Pointer
constexpr PointerAttribute attribute_range_bytes = 12;  // std::size_t
constexpr unsigned memory_of_host = 1;
constexpr unsigned memory_of_gpu = 2;
constexpr unsigned memory_unified = 4;

/// Stands for another stream on every thread: cudaStreamPerThread.
constexpr unsigned stream_of_thread = 2;
/// A stream that does not wait for the default stream, nor that for it.
constexpr unsigned stream_non_blocking = 1;
constexpr unsigned event_with_timing = 0;
/// An event without times, which is cheaper.
constexpr unsigned event_without_timing = 2;
constexpr unsigned wait_by_default = 0;
/// Of a captured stream: each launch of the graph records it, and who is outside can see that.
constexpr unsigned record_external = 1;
constexpr unsigned no_flags = 0;
/// Lets the GPU of the context reach the GPU that the memory is of.
constexpr unsigned ipc_enable_peer_access = 1;
using CaptureStatus = int;
constexpr CaptureStatus capture_none = 0;
constexpr CaptureStatus capture_active = 1;
/// Which threads' calls may break a capture; of a thread: which captures its own calls may break.
using CaptureMode = int;
constexpr CaptureMode capture_global = 0;
constexpr CaptureMode capture_of_thread = 1;
constexpr CaptureMode capture_relaxed = 2;

struct Functions {
  Function<Result(unsigned)> init{"cuInit"};
  Function<Result(Result, const char**)> error_name{"cuGetErrorName"};
  Function<Result(Result, const char**)> error_text{"cuGetErrorString"};
  Function<Result(int*)> driver_version{"cuDriverGetVersion"};
  Function<Result(int*)> count{"cuDeviceGetCount"};
  Function<Result(Device*, int)> device{"cuDeviceGet"};
  Function<Result(char*, int, Device)> name{"cuDeviceGetName"};
  /// The first version tells the UUID of the whole GPU where the second tells that of a slice.
  Function<Result(Uuid*, Device)> uuid{"cuDeviceGetUuid_v2"};
  Function<Result(Uuid*, Device)> old_uuid{"cuDeviceGetUuid"};
  Function<Result(std::size_t*, Device)> total_memory{"cuDeviceTotalMem_v2"};
  Function<Result(int*, int, Device)> attribute{"cuDeviceGetAttribute"};
  Function<Result(char*, int, Device)> pci_bus_id{"cuDeviceGetPCIBusId"};
  Function<Result(int*, Device, Device)> can_access_peer{"cuDeviceCanAccessPeer"};
  Function<Result(Context*, Device)> retain_context{"cuDevicePrimaryCtxRetain"};
  Function<Result(Device)> release_context{"cuDevicePrimaryCtxRelease_v2"};
  Function<Result(Context)> set_context{"cuCtxSetCurrent"};
  Function<Result(Context, unsigned)> enable_peer_access{"cuCtxEnablePeerAccess"};
  Function<Result()> synchronize{"cuCtxSynchronize"};
  Function<Result(Pointer*, std::size_t)> allocate{"cuMemAlloc_v2"};
  Function<Result(Pointer)> release{"cuMemFree_v2"};
  /// In the order of a stream, from CUDA 11.2 on.
  Function<Result(Pointer*, std::size_t, Stream)> allocate_on{"cuMemAllocAsync"};
  Function<Result(Pointer, Stream)> release_on{"cuMemFreeAsync"};
  Function<Result(Pointer, unsigned char, std::size_t)> fill{"cuMemsetD8_v2"};
  Function<Result(Pointer, unsigned char, std::size_t, Stream)> fill_on{"cuMemsetD8Async"};
  Function<Result(Pointer, const void*, std::size_t)> to_gpu{"cuMemcpyHtoD_v2"};
  Function<Result(void*, Pointer, std::size_t)> to_host{"cuMemcpyDtoH_v2"};
  Function<Result(Pointer, Context, Pointer, Context, std::size_t)> between{"cuMemcpyPeer"};
  Function<Result(void*, PointerAttribute, Pointer)> pointer_attribute{"cuPointerGetAttribute"};
  /// Of a pointer that CUDA does not know it sets all to 0, and succeeds.
  Function<Result(unsigned, PointerAttribute*, void**, Pointer)> pointer_attributes{
      "cuPointerGetAttributes"};
  Function<Result(Context)> push_context{"cuCtxPushCurrent_v2"};
  Function<Result(Context*)> pop_context{"cuCtxPopCurrent_v2"};
  /// Least and greatest; the greatest is the smaller number.
  Function<Result(int*, int*)> priorities{"cuCtxGetStreamPriorityRange"};
  Function<Result(Stream*, unsigned, int)> make_stream{"cuStreamCreateWithPriority"};
  Function<Result(Stream)> destroy_stream{"cuStreamDestroy_v2"};
  /// Of the default streams it tells the context of the thread that asks.
  Function<Result(Stream, Context*)> context_of_stream{"cuStreamGetCtx"};
  /// From CUDA 12.0 on: a number that no other stream of the process ever has.
  Function<Result(Stream, unsigned long long*)> id_of_stream{"cuStreamGetId"};
  Function<Result(Stream, CaptureStatus*)> is_capturing{"cuStreamIsCapturing"};
  /// Of this thread: gives it the mode, and tells what it was.
  Function<Result(CaptureMode*)> exchange_capture_mode{"cuThreadExchangeStreamCaptureMode"};
  Function<Result(Stream, Event, unsigned)> wait_event{"cuStreamWaitEvent"};
  Function<Result(Event*, unsigned)> make_event{"cuEventCreate"};
  Function<Result(Event)> destroy_event{"cuEventDestroy_v2"};
  Function<Result(Event, Stream)> record_event{"cuEventRecord"};
  Function<Result(Event, Stream, unsigned)> record_event_flagged{"cuEventRecordWithFlags"};
  Function<Result(Event)> query_event{"cuEventQuery"};
  /// Milliseconds between two events with timing.
  Function<Result(float*, Event, Event)> elapsed{"cuEventElapsedTime"};
  Function<Result(void**, std::size_t, unsigned)> allocate_pinned{"cuMemHostAlloc"};
  Function<Result(void*)> free_pinned{"cuMemFreeHost"};
  Function<Result(Pointer, const void*, std::size_t, Stream)> to_gpu_on{"cuMemcpyHtoDAsync_v2"};
  Function<Result(void*, Pointer, std::size_t, Stream)> to_host_on{"cuMemcpyDtoHAsync_v2"};
  Function<Result(Pointer, Pointer, std::size_t, Stream)> copy_on{"cuMemcpyDtoDAsync_v2"};
  Function<Result(IpcHandle*, Pointer)> get_ipc_handle{"cuIpcGetMemHandle"};
  Function<Result(Pointer*, IpcHandle, unsigned)> open_ipc_handle{"cuIpcOpenMemHandle_v2"};
  Function<Result(Pointer)> close_ipc_handle{"cuIpcCloseMemHandle"};
  Function<Result(Module*, const void*)> load_module{"cuModuleLoadData"};
  Function<Result(Module)> unload_module{"cuModuleUnload"};
  Function<Result(Kernel*, Module, const char*)> kernel_of_module{"cuModuleGetFunction"};
  /// From CUDA 12.4 on.
  Function<Result(Kernel)> load_kernel{"cuFuncLoad"};
  /// Blocks in x, y, z, threads of a block in x, y, z, bytes of shared memory, stream, arguments.
  Function<Result(Kernel, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                  Stream, void**, void**)>
      launch{"cuLaunchKernel"};
  Function<Result(Stream, CaptureMode)> begin_capture{"cuStreamBeginCapture_v2"};
  Function<Result(Stream, Graph*)> end_capture{"cuStreamEndCapture"};
  Function<Result(GraphExec*, Graph, unsigned long long)> instantiate{
      "cuGraphInstantiateWithFlags"};
  Function<Result(GraphExec, Stream)> launch_graph{"cuGraphLaunch"};
  Function<Result(Graph)> destroy_graph{"cuGraphDestroy"};
  Function<Result(GraphExec)> destroy_graph_exec{"cuGraphExecDestroy"};
};

}  // namespace hymn::cuda_api
