// Reductions of float16 and bfloat16 as reductions of float32: their input is widened into memory
// of the GPU, and the result there narrowed, rounded once.
#pragma once

#include <functional>
#include <memory>

#include "collectives/algorithm.hpp"
#include "collectives/cuda/gpu_kernels.hpp"

namespace hymn {

/// Whether it is one that can be made in float32. All members get the same answer.
Verdict can_reduce_in_float32(DataType dtype, ReduceKind kind);
Verdict can_reduce_in_float32(const Request& request);

/// One such reduction. Its calls are made by one thread at a time.
class Float32Reduction {
 public:
  /// `request` must outlive it; `root` is that of a reduce, as a group rank.
  Float32Reduction(std::shared_ptr<cuda::GpuKernels> kernels, const Request& request,
                   const GroupShape& shape, int root);
  Float32Reduction(const Float32Reduction&) = delete;
  Float32Reduction& operator=(const Float32Reduction&) = delete;

  /// Allocates and widens, on the stream. Returns the reduction of float32 to be put there next,
  /// which lives as long as this. Throws BackendError.
  const Request& begin(cuda_api::Stream stream);
  /// Once that is on the stream: narrows, and releases, there. Before begin() and after it has
  /// been done it does nothing. Throws BackendError.
  void finish(cuda_api::Stream stream);

  /// What releases the memory that is still held, behind `event` on the GPU; to be called when
  /// nothing but the GPU up to this event uses it any more. Null: nothing is held, or the GPU
  /// fails. Afterwards only the destructor is called.
  std::function<void()> release_behind(cuda_api::Event event) noexcept;

 private:
  BufferView wide() const;
  Request widened() const;
  Request widened_scatter(const ReduceOp& op) const;

  const std::shared_ptr<cuda::GpuKernels> kernels_;
  const Request& request_;
  const GroupShape shape_;
  const int root_;
  cuda_api::Pointer memory_ = 0;  ///< 0: none is held
  Request inner_;
};

}  // namespace hymn
