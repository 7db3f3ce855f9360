// What the body of a kernel sees of the processor that runs it. The same body runs on a GPU, whose
// compiler reads it in kernels.cu, and on the host, where each block is one thread of the program:
// so tests, and sanitizers, run what GPUs run.
#pragma once

#include <cstddef>
#include <cstdint>

#include "hymn/half.hpp"

#ifdef __CUDACC__
#define HYMN_KERNEL_BODY __device__ __forceinline__
#define HYMN_KERNEL_CALL __device__ __noinline__ inline
#define HYMN_UNROLLED _Pragma("unroll")
#define HYMN_ROLLED _Pragma("unroll 1")
#else
#include <atomic>
#include <chrono>
#include <thread>
#define HYMN_KERNEL_BODY inline
#define HYMN_KERNEL_CALL inline
#define HYMN_UNROLLED
#define HYMN_ROLLED
#endif

namespace hymn::cuda {

inline constexpr unsigned threads_of_block = 256;

/// Where a thread is in its kernel. On the host a block has one thread.
struct KernelThread {
  unsigned thread = 0;  ///< in its block
  unsigned threads = 1;
  unsigned block = 0;
  unsigned blocks = 1;

  /// Among all threads of the kernel; they go through data by steps of stride().
  HYMN_KERNEL_BODY std::size_t index() const {
    return static_cast<std::size_t>(block) * threads + thread;
  }
  HYMN_KERNEL_BODY std::size_t stride() const { return static_cast<std::size_t>(blocks) * threads; }

  /// Waits for all threads of its block, and sees what they have written before.
  HYMN_KERNEL_BODY void sync() const {
#ifdef __CUDACC__
    __syncthreads();
#endif
  }

  /// As sync(), and tells all of them whether it holds for any of them.
  HYMN_KERNEL_BODY bool any(bool holds) const {
#ifdef __CUDACC__
    return __syncthreads_or(holds ? 1 : 0) != 0;
#else
    return holds;
#endif
  }
};

#ifdef __CUDACC__
HYMN_KERNEL_BODY KernelThread this_kernel_thread() {
  return {threadIdx.x, blockDim.x, blockIdx.x, gridDim.x};
}
#endif

// --- Words that other GPUs and the host read and write at the same time. "System" is the CUDA
// memory model's scope of all of them.

/// What was written before the word was stored is seen after it has been loaded.
HYMN_KERNEL_BODY std::uint32_t load_acquire_system(const std::uint32_t* word) {
#ifdef __CUDACC__
  std::uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
#else
  return std::atomic_ref(*const_cast<std::uint32_t*>(word)).load(std::memory_order_acquire);
#endif
}

HYMN_KERNEL_BODY void store_release_system(std::uint32_t* word, std::uint32_t value) {
#ifdef __CUDACC__
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
#else
  std::atomic_ref(*word).store(value, std::memory_order_release);
#endif
}

/// Makes the word the least of what it holds and `value`. Orders nothing else.
HYMN_KERNEL_BODY void lower(std::uint64_t* word, std::uint64_t value) {
#ifdef __CUDACC__
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  atomicMin(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
#else
  std::atomic_ref held(*word);
  std::uint64_t seen = held.load(std::memory_order_relaxed);
  while (value < seen && !held.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
#endif
}

/// Adds one to a word of the own GPU, and returns what it was. Orders what its block has done
/// before against what comes after those of other blocks.
HYMN_KERNEL_BODY std::uint32_t count_up(std::uint32_t* word) {
#ifdef __CUDACC__
  std::uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;"
               : "=r"(before)
               : "l"(word)
               : "memory");
  return before;
#else
  return std::atomic_ref(*word).fetch_add(1, std::memory_order_acq_rel);
#endif
}

// --- Arithmetic that rounds each step by itself, to nearest: compilers may contract a*b+c. (On the
// host that is up to a flag: -ffp-contract=off.)

HYMN_KERNEL_BODY float add(float a, float b) {
#ifdef __CUDACC__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}

HYMN_KERNEL_BODY double add(double a, double b) {
#ifdef __CUDACC__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}

HYMN_KERNEL_BODY float multiply(float a, float b) {
#ifdef __CUDACC__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}

HYMN_KERNEL_BODY float divide(float a, float b) {
#ifdef __CUDACC__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}

// --- Halves, by the GPU's own instructions where there are some: these round as hymn/half.hpp
// does, and lose the payload of a NaN.

HYMN_KERNEL_BODY float widen_float16(std::uint16_t bits) {
#ifdef __CUDACC__
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
  return value;
#else
  return detail::widen_float16(bits);
#endif
}

HYMN_KERNEL_BODY std::uint16_t narrow_float16(float value) {
#ifdef __CUDACC__
  std::uint16_t bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return value == value ? bits : std::uint16_t{0x7e00};
#else
  return detail::narrow_float16(value);
#endif
}

HYMN_KERNEL_BODY std::uint16_t narrow_bfloat16(float value) {
#ifdef __CUDACC__
  std::uint16_t bits;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(value));
  return value == value ? bits : std::uint16_t{0x7fc0};
#else
  return detail::narrow_bfloat16(value);
#endif
}

/// Goes on at one pace everywhere, from an unknown beginning.
HYMN_KERNEL_BODY std::uint64_t nanoseconds() {
#ifdef __CUDACC__
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
#endif
}

/// Between two looks at a word that is waited for.
HYMN_KERNEL_BODY void relax() {
#ifdef __CUDACC__
  __nanosleep(20);
#else
  std::this_thread::yield();
#endif
}

}  // namespace hymn::cuda
