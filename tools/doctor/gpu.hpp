// GPUs at work: bytes moved between them by CUDA's driver, which is loaded at run time; and the
// versions of the libraries that work with them.
#pragma once

#include <string>
#include <vector>

#include "tools/doctor/facts.hpp"

namespace hymn {

/// What the copies need of a GPU driver. Errors are thrown as BackendError.
class GpuCopier {
 public:
  GpuCopier() = default;
  GpuCopier(const GpuCopier&) = delete;
  GpuCopier& operator=(const GpuCopier&) = delete;
  virtual ~GpuCopier() = default;

  virtual int count() = 0;
  /// Whether `from` may write to the memory of `to` directly; always for one GPU.
  virtual bool has_peer_access(int from, int to) = 0;
  /// Writes `bytes` to the memory of `from`, copies them to other memory on `to`, and reads them
  /// back from there.
  virtual std::vector<unsigned char> round_trip(int from, int to,
                                                const std::vector<unsigned char>& bytes) = 0;
};

/// Every ordered pair, each GPU with itself too. What fails is part of the result.
std::vector<GpuCopy> try_copies(GpuCopier& copier);
/// The same with libcuda.so.1; nothing where there is no driver or no GPU.
std::vector<GpuCopy> try_copies();

/// As NCCL and CUDA write them (22809, 13000); 0 where the library is not there.
int nccl_version();
int cuda_runtime_version();

}  // namespace hymn
