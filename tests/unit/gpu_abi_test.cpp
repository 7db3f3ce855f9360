// What the tables of gpu/ declare by themselves, held against NVIDIA's headers where these are
// installed. All of it is checked by the compiler; a program is made of it so that ctest tells.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gpu/gpu_functions.hpp"
#include "gpu/nccl_api.hpp"
#ifdef HYMN_TEST_CUDA_H
#include <cuda.h>
#endif
#ifdef HYMN_TEST_NCCL_H
#include <nccl.h>
#endif
#ifdef HYMN_TEST_NVML_H
#include <nvml.h>
#endif

namespace hymn::test {
namespace {

/// Passed and returned in the same way: pointers, or integers and enumerations of one size.
template <typename A, typename B>
constexpr bool same_value =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B> &&
    std::is_floating_point_v<A> == std::is_floating_point_v<B>;

template <typename A, typename B>
struct SameSignature : std::false_type {};
template <typename R, typename S, typename... A, typename... B>
  requires(sizeof...(A) == sizeof...(B))
struct SameSignature<R (*)(A...), S (*)(B...)>
    : std::bool_constant<same_value<R, S> && (same_value<A, B> && ...)> {};

/// Whether the member function table entry `member` fits the function that the header declares.
template <auto member, typename Table, typename Declared>
constexpr bool fits = SameSignature<decltype((Table{}.*member).pointer), Declared*>::value;

#define FITS(table, member, function)                            \
  static_assert(fits<&table::member, table, decltype(function)>, \
                #function " is declared otherwise by the header")

#ifdef HYMN_TEST_CUDA_H
using Cuda = cuda_api::Functions;
FITS(Cuda, init, cuInit);
FITS(Cuda, error_name, cuGetErrorName);
FITS(Cuda, error_text, cuGetErrorString);
FITS(Cuda, driver_version, cuDriverGetVersion);
FITS(Cuda, count, cuDeviceGetCount);
FITS(Cuda, device, cuDeviceGet);
FITS(Cuda, name, cuDeviceGetName);
FITS(Cuda, uuid, cuDeviceGetUuid);
FITS(Cuda, total_memory, cuDeviceTotalMem);
FITS(Cuda, attribute, cuDeviceGetAttribute);
FITS(Cuda, pci_bus_id, cuDeviceGetPCIBusId);
FITS(Cuda, can_access_peer, cuDeviceCanAccessPeer);
FITS(Cuda, retain_context, cuDevicePrimaryCtxRetain);
FITS(Cuda, release_context, cuDevicePrimaryCtxRelease);
FITS(Cuda, set_context, cuCtxSetCurrent);
FITS(Cuda, enable_peer_access, cuCtxEnablePeerAccess);
FITS(Cuda, synchronize, cuCtxSynchronize);
FITS(Cuda, allocate, cuMemAlloc);
FITS(Cuda, release, cuMemFree);
FITS(Cuda, allocate_on, cuMemAllocAsync);
FITS(Cuda, release_on, cuMemFreeAsync);
FITS(Cuda, fill, cuMemsetD8);
FITS(Cuda, fill_on, cuMemsetD8Async);
FITS(Cuda, to_gpu, cuMemcpyHtoD);
FITS(Cuda, to_host, cuMemcpyDtoH);
FITS(Cuda, between, cuMemcpyPeer);
FITS(Cuda, pointer_attribute, cuPointerGetAttribute);
FITS(Cuda, pointer_attributes, cuPointerGetAttributes);
FITS(Cuda, push_context, cuCtxPushCurrent);
FITS(Cuda, pop_context, cuCtxPopCurrent);
FITS(Cuda, priorities, cuCtxGetStreamPriorityRange);
FITS(Cuda, make_stream, cuStreamCreateWithPriority);
FITS(Cuda, destroy_stream, cuStreamDestroy);
FITS(Cuda, context_of_stream, cuStreamGetCtx);
#if CUDA_VERSION >= 12000
FITS(Cuda, id_of_stream, cuStreamGetId);
#endif
FITS(Cuda, is_capturing, cuStreamIsCapturing);
FITS(Cuda, exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
static_assert(cuda_api::capture_global == CU_STREAM_CAPTURE_MODE_GLOBAL);
static_assert(cuda_api::capture_of_thread == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(cuda_api::capture_relaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(cuda_api::stream_capture_unsupported == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
static_assert(cuda_api::stream_capture_invalidated == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
FITS(Cuda, wait_event, cuStreamWaitEvent);
FITS(Cuda, make_event, cuEventCreate);
FITS(Cuda, destroy_event, cuEventDestroy);
FITS(Cuda, record_event, cuEventRecord);
FITS(Cuda, record_event_flagged, cuEventRecordWithFlags);
FITS(Cuda, query_event, cuEventQuery);
FITS(Cuda, elapsed, cuEventElapsedTime);
FITS(Cuda, allocate_pinned, cuMemHostAlloc);
FITS(Cuda, free_pinned, cuMemFreeHost);
FITS(Cuda, to_gpu_on, cuMemcpyHtoDAsync);
FITS(Cuda, to_host_on, cuMemcpyDtoHAsync);
FITS(Cuda, copy_on, cuMemcpyDtoDAsync);
static_assert(cuda_api::event_with_timing == CU_EVENT_DEFAULT);
FITS(Cuda, get_ipc_handle, cuIpcGetMemHandle);
FITS(Cuda, open_ipc_handle, cuIpcOpenMemHandle);
FITS(Cuda, close_ipc_handle, cuIpcCloseMemHandle);
FITS(Cuda, load_module, cuModuleLoadData);
FITS(Cuda, unload_module, cuModuleUnload);
FITS(Cuda, kernel_of_module, cuModuleGetFunction);
#if CUDA_VERSION >= 12040
FITS(Cuda, load_kernel, cuFuncLoad);
#endif
FITS(Cuda, launch, cuLaunchKernel);
FITS(Cuda, begin_capture, cuStreamBeginCapture);
FITS(Cuda, end_capture, cuStreamEndCapture);
FITS(Cuda, instantiate, cuGraphInstantiateWithFlags);
FITS(Cuda, launch_graph, cuGraphLaunch);
FITS(Cuda, destroy_graph, cuGraphDestroy);
FITS(Cuda, destroy_graph_exec, cuGraphExecDestroy);
static_assert(cuda_api::record_external == CU_EVENT_RECORD_EXTERNAL);
static_assert(cuda_api::no_flags == CU_EVENT_RECORD_DEFAULT);
static_assert(cuda_api::stream_non_blocking == CU_STREAM_NON_BLOCKING);
static_assert(cuda_api::event_without_timing == CU_EVENT_DISABLE_TIMING);
static_assert(cuda_api::wait_by_default == CU_EVENT_WAIT_DEFAULT);
static_assert(cuda_api::capture_none == CU_STREAM_CAPTURE_STATUS_NONE);
static_assert(cuda_api::capture_active == CU_STREAM_CAPTURE_STATUS_ACTIVE);
static_assert(cuda_api::not_ready == CUDA_ERROR_NOT_READY);
static_assert(cuda_api::attribute_memory_type == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(cuda_api::attribute_buffer_id == CU_POINTER_ATTRIBUTE_BUFFER_ID);
static_assert(cuda_api::attribute_is_managed == CU_POINTER_ATTRIBUTE_IS_MANAGED);
static_assert(cuda_api::attribute_gpu == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(cuda_api::attribute_range_begin == CU_POINTER_ATTRIBUTE_RANGE_START_ADDR);
static_assert(cuda_api::attribute_range_bytes == CU_POINTER_ATTRIBUTE_RANGE_SIZE);
static_assert(cuda_api::memory_of_host == CU_MEMORYTYPE_HOST);
static_assert(cuda_api::memory_of_gpu == CU_MEMORYTYPE_DEVICE);
static_assert(cuda_api::memory_unified == CU_MEMORYTYPE_UNIFIED);
static_assert(cuda_api::not_initialized == CUDA_ERROR_NOT_INITIALIZED);
static_assert(cuda_api::deinitialized == CUDA_ERROR_DEINITIALIZED);
static_assert(cuda_api::invalid_context == CUDA_ERROR_INVALID_CONTEXT);
static_assert(cuda_api::no_binary_for_gpu == CUDA_ERROR_NO_BINARY_FOR_GPU);
static_assert(cuda_api::unsupported_ptx == CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
static_assert(cuda_api::success == CUDA_SUCCESS);
static_assert(cuda_api::out_of_memory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(cuda_api::stub_library == CUDA_ERROR_STUB_LIBRARY);
static_assert(cuda_api::no_device == CUDA_ERROR_NO_DEVICE);
static_assert(cuda_api::invalid_device == CUDA_ERROR_INVALID_DEVICE);
static_assert(cuda_api::uncorrectable_ecc == CUDA_ERROR_ECC_UNCORRECTABLE);
static_assert(cuda_api::illegal_address == CUDA_ERROR_ILLEGAL_ADDRESS);
static_assert(cuda_api::launch_failed == CUDA_ERROR_LAUNCH_FAILED);
static_assert(cuda_api::system_not_ready == CUDA_ERROR_SYSTEM_NOT_READY);
static_assert(cuda_api::driver_mismatch == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
static_assert(cuda_api::attribute_compute_major == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(cuda_api::attribute_compute_minor == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(cuda_api::attribute_memory_pools == CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED);
static_assert(sizeof(cuda_api::Uuid) == sizeof(CUuuid));
static_assert(sizeof(cuda_api::IpcHandle) == sizeof(CUipcMemHandle));
static_assert(cuda_api::ipc_enable_peer_access == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(cuda_api::peer_access_already_enabled == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
TEST(GpuAbi, DeclarationsAgreeWithCudaH) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(CU_STREAM_PER_THREAD), cuda_api::stream_of_thread);
}
#else
TEST(GpuAbi, DeclarationsAgreeWithCudaH) { GTEST_SKIP() << "cuda.h is not installed"; }
#endif

#ifdef HYMN_TEST_NVML_H
using Nvml = nvml_api::Functions;
FITS(Nvml, init, nvmlInit_v2);
FITS(Nvml, shutdown, nvmlShutdown);
FITS(Nvml, error_string, nvmlErrorString);
FITS(Nvml, driver_version, nvmlSystemGetDriverVersion);
FITS(Nvml, count, nvmlDeviceGetCount_v2);
FITS(Nvml, device, nvmlDeviceGetHandleByIndex_v2);
FITS(Nvml, uuid, nvmlDeviceGetUUID);
FITS(Nvml, pci_info, nvmlDeviceGetPciInfo_v3);
FITS(Nvml, link_state, nvmlDeviceGetNvLinkState);
FITS(Nvml, link_capability, nvmlDeviceGetNvLinkCapability);
FITS(Nvml, link_remote_type, nvmlDeviceGetNvLinkRemoteDeviceType);
FITS(Nvml, link_remote_pci, nvmlDeviceGetNvLinkRemotePciInfo_v2);
FITS(Nvml, field_values, nvmlDeviceGetFieldValues);
FITS(Nvml, common_ancestor, nvmlDeviceGetTopologyCommonAncestor);
static_assert(nvml_api::success == NVML_SUCCESS);
static_assert(nvml_api::invalid_argument == NVML_ERROR_INVALID_ARGUMENT);
static_assert(nvml_api::not_supported == NVML_ERROR_NOT_SUPPORTED);
static_assert(nvml_api::capability_p2p == NVML_NVLINK_CAP_P2P_SUPPORTED);
static_assert(nvml_api::remote_gpu == NVML_NVLINK_DEVICE_TYPE_GPU);
static_assert(nvml_api::remote_switch == NVML_NVLINK_DEVICE_TYPE_SWITCH);
static_assert(nvml_api::level_multiple_switches == NVML_TOPOLOGY_MULTIPLE);
static_assert(nvml_api::level_node == NVML_TOPOLOGY_NODE);
static_assert(nvml_api::level_system == NVML_TOPOLOGY_SYSTEM);
static_assert(nvml_api::field_common_link_speed == NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON);
static_assert(nvml_api::field_link_speed == NVML_FI_DEV_NVLINK_GET_SPEED);
static_assert(nvml_api::type_double == NVML_VALUE_TYPE_DOUBLE);
static_assert(nvml_api::type_unsigned_int == NVML_VALUE_TYPE_UNSIGNED_INT);
static_assert(nvml_api::type_unsigned_long == NVML_VALUE_TYPE_UNSIGNED_LONG);
static_assert(nvml_api::type_unsigned_long_long == NVML_VALUE_TYPE_UNSIGNED_LONG_LONG);
static_assert(sizeof(nvml_api::PciInfo) == sizeof(nvmlPciInfo_t));
static_assert(offsetof(nvml_api::PciInfo, bus_id) == offsetof(nvmlPciInfo_t, busId));
static_assert(sizeof(nvml_api::FieldValue) == sizeof(nvmlFieldValue_t));
static_assert(offsetof(nvml_api::FieldValue, type) == offsetof(nvmlFieldValue_t, valueType));
static_assert(offsetof(nvml_api::FieldValue, result) == offsetof(nvmlFieldValue_t, nvmlReturn));
static_assert(offsetof(nvml_api::FieldValue, value) == offsetof(nvmlFieldValue_t, value));
TEST(GpuAbi, DeclarationsAgreeWithNvmlH) {
  EXPECT_GE(nvml_api::max_links, static_cast<unsigned>(NVML_NVLINK_MAX_LINKS));
}
#else
TEST(GpuAbi, DeclarationsAgreeWithNvmlH) { GTEST_SKIP() << "nvml.h is not installed"; }
#endif

#ifdef HYMN_TEST_NCCL_H
using Nccl = nccl_api::Functions;
FITS(Nccl, get_version, ncclGetVersion);
FITS(Nccl, error_text, ncclGetErrorString);
FITS(Nccl, last_error, ncclGetLastError);
FITS(Nccl, get_unique_id, ncclGetUniqueId);
FITS(Nccl, init_rank, ncclCommInitRankConfig);
FITS(Nccl, split, ncclCommSplit);
FITS(Nccl, get_async_error, ncclCommGetAsyncError);
FITS(Nccl, finalize, ncclCommFinalize);
FITS(Nccl, destroy, ncclCommDestroy);
FITS(Nccl, abort, ncclCommAbort);
FITS(Nccl, group_start, ncclGroupStart);
FITS(Nccl, group_end, ncclGroupEnd);
FITS(Nccl, all_reduce, ncclAllReduce);
FITS(Nccl, broadcast, ncclBroadcast);
FITS(Nccl, reduce, ncclReduce);
FITS(Nccl, all_gather, ncclAllGather);
FITS(Nccl, reduce_scatter, ncclReduceScatter);
FITS(Nccl, send, ncclSend);
FITS(Nccl, recv, ncclRecv);
FITS(Nccl, make_premul_sum, ncclRedOpCreatePreMulSum);
FITS(Nccl, destroy_op, ncclRedOpDestroy);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 19, 0)
FITS(Nccl, allocate, ncclMemAlloc);
FITS(Nccl, release, ncclMemFree);
FITS(Nccl, register_buffer, ncclCommRegister);
FITS(Nccl, deregister_buffer, ncclCommDeregister);
#endif
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
FITS(Nccl, open_window, ncclCommWindowRegister);
FITS(Nccl, close_window, ncclCommWindowDeregister);
static_assert(nccl_api::symmetric_window == NCCL_WIN_COLL_SYMMETRIC);
#endif
static_assert(nccl_api::int8 == ncclInt8 && nccl_api::uint8 == ncclUint8);
static_assert(nccl_api::int32 == ncclInt32 && nccl_api::uint32 == ncclUint32);
static_assert(nccl_api::int64 == ncclInt64 && nccl_api::uint64 == ncclUint64);
static_assert(nccl_api::float16 == ncclFloat16 && nccl_api::bfloat16 == ncclBfloat16);
static_assert(nccl_api::float32 == ncclFloat32 && nccl_api::float64 == ncclFloat64);
static_assert(nccl_api::sum == ncclSum && nccl_api::product == ncclProd);
static_assert(nccl_api::max == ncclMax && nccl_api::min == ncclMin && nccl_api::avg == ncclAvg);
static_assert(nccl_api::factor_on_host == ncclScalarHostImmediate);
static_assert(sizeof(nccl_api::UniqueId) == sizeof(ncclUniqueId));
static_assert(offsetof(nccl_api::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(nccl_api::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(nccl_api::Config, blocking) == offsetof(ncclConfig_t, blocking));
static_assert(offsetof(nccl_api::Config, cga_cluster_size) ==
              offsetof(ncclConfig_t, cgaClusterSize));
static_assert(offsetof(nccl_api::Config, min_ctas) == offsetof(ncclConfig_t, minCTAs));
static_assert(offsetof(nccl_api::Config, max_ctas) == offsetof(ncclConfig_t, maxCTAs));
static_assert(offsetof(nccl_api::Config, net_name) == offsetof(ncclConfig_t, netName));
static_assert(offsetof(nccl_api::Config, split_share) == offsetof(ncclConfig_t, splitShare));
static_assert(sizeof(nccl_api::Config) <= sizeof(ncclConfig_t));
static_assert(nccl_api::Config::unset == NCCL_CONFIG_UNDEF_INT);
static_assert(nccl_api::no_color == NCCL_SPLIT_NOCOLOR);
TEST(GpuAbi, ConfigOfNcclIsMarkedAsItsOwnIs) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  EXPECT_EQ(nccl_api::Config().magic, theirs.magic);
}
static_assert(nccl_api::success == ncclSuccess);
static_assert(nccl_api::unhandled_cuda_error == ncclUnhandledCudaError);
static_assert(nccl_api::system_error == ncclSystemError);
static_assert(nccl_api::internal_error == ncclInternalError);
static_assert(nccl_api::invalid_argument == ncclInvalidArgument);
static_assert(nccl_api::invalid_usage == ncclInvalidUsage);
static_assert(nccl_api::remote_error == ncclRemoteError);
static_assert(nccl_api::in_progress == ncclInProgress);
static_assert(nccl_api::oldest_version == NCCL_VERSION(2, 18, 0));
TEST(GpuAbi, DeclarationsAgreeWithNcclH) { SUCCEED() << NCCL_VERSION_CODE; }
#else
TEST(GpuAbi, DeclarationsAgreeWithNcclH) { GTEST_SKIP() << "nccl.h is not installed"; }
#endif

}  // namespace
}  // namespace hymn::test
