// Hooks for GradientReducer, of libhymn-training (hymn::training).
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>

#include "hymn/gradient_reducer.hpp"

namespace hymn::training {

/// Averages, as without a hook: for hooks that are given another to call.
HYMN_API CommHook all_reduce_hook();

/// Rounds gradients of float32 or float64 to float16 before `hook` reduces them, and turns what
/// comes back into their own type again: half of the bytes, or a quarter, on the way. Gradients of
/// other types go as they are.
HYMN_API CommHook fp16_compress(CommHook hook = all_reduce_hook());
/// The same with bfloat16, which has the range of float32 and 8 bits of its 24.
HYMN_API CommHook bf16_compress(CommHook hook = all_reduce_hook());

/// The same on all ranks.
struct PowerSgdOptions {
  std::size_t rank = 1;  ///< of the matrices that stand for gradients
  /// So many iterations are averaged before; at least 2, as buckets are made anew after the first,
  /// where something is kept from one to the next (error_feedback or warm_start).
  std::uint64_t start_iteration = 1000;
  /// A gradient that would not become smaller by this factor goes as it is.
  double min_compression_rate = 2;
  bool error_feedback = true;  ///< what was lost is added to the next gradient
  bool warm_start = true;      ///< begins with what was found last
  std::uint64_t seed = 0;      ///< of the matrices it begins with otherwise
  /// Of a bucket as a whole, taken for a square matrix: quicker, and less exact.
  bool batched = false;
};

/// PowerSGD (Vogels, Karimireddy, Jaggi, 2019): gradients of float32 and float64 travel as products
/// of two thin matrices, by two collectives for each bucket, of which the first is waited for.
/// Others are averaged. The hook keeps what it has learnt: each reducer is given one of its own.
/// Throws UsageError for options that make no sense.
HYMN_API CommHook power_sgd(const PowerSgdOptions& options = {});

}  // namespace hymn::training
