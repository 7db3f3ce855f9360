// hymn's C API for GPU memory that is registered with a group's NCCL communicator: as
// ProcessGroup::register_buffer(). docs/gpu.md tells what it is for.
#pragma once

#include "hymn/hymn.h"

#ifdef __cplusplus
extern "C" {
#endif

/// A registration. It may outlive the group, whose end ends it, but not the memory.
typedef struct hymnBuffer* hymnBuffer_t;

/// How NCCL registers it.
typedef enum {
  hymnRegistrationLocal = 1,  ///< each rank's buffer by itself: NCCL 2.19 or newer
  hymnRegistrationWindow      ///< as a window of symmetric memory of all members: 2.27 or newer
} hymnRegistration_t;

/// Registers `bytes` bytes at `data`, in the memory of this rank's GPU: operations of this group on
/// buffers that lie in it may then read and write them where they lie. All members call it, in the
/// order of their collectives; it waits until NCCL is ready, within the group's limit. A window
/// wants memory from hymnBufferAllocate, or of CUDA's virtual memory, and the same size on all
/// members. hymnUnsupportedError: NCCL does not carry this group, or is too old (the text tells
/// which version has it); hymnUsageError: memory that is not this rank's GPU's; hymnTimeoutError: a
/// member did not arrive; hymnBackendError.
HYMN_API hymnResult_t hymnBufferRegister(hymnGroup_t group, void* data, size_t bytes,
                                         hymnRegistration_t how, hymnBuffer_t* buffer);
/// The same with memory that NCCL allocates (2.19 or newer), and that hymnBufferFree frees.
HYMN_API hymnResult_t hymnBufferAllocate(hymnGroup_t group, size_t bytes, hymnRegistration_t how,
                                         hymnBuffer_t* buffer);

/// Where it lies, and how long it is.
HYMN_API hymnResult_t hymnBufferData(hymnBuffer_t buffer, void** data);
HYMN_API hymnResult_t hymnBufferBytes(hymnBuffer_t buffer, size_t* bytes);
/// Whether it is still registered: 1, or 0 when the communicator has ended.
HYMN_API hymnResult_t hymnBufferIsRegistered(hymnBuffer_t buffer, int* is_registered);
/// Ends the registration, frees memory that NCCL has allocated, and frees the handle even when an
/// error is returned. No operation may be in flight on it. Ranks may do it in any order.
HYMN_API hymnResult_t hymnBufferFree(hymnBuffer_t buffer);

#ifdef __cplusplus
}
#endif
