// How one element type is reduced by one operation: the kernels that every algorithm shares.
//
// A reduction has three parts. load() brings a rank's input into accumulator form (widened, scaled
// by the factor of premul_sum); combine() folds one accumulator array into another; store() turns
// the final accumulator into the result (divided for avg, narrowed once). Where an input is its own
// accumulator form load is null, and likewise store. docs/dtypes.md holds the table of what is
// defined; tests check it cell by cell.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "base/private.hpp"
#include "hymn/types.hpp"
#include "p2p/copy_bytes.hpp"

namespace hymn {

/// The form in which values are accumulated.
enum class Accumulator : std::uint8_t {
  boolean,  ///< one byte, 0 or 1 once loaded
  int8,
  uint8,
  int32,
  uint32,
  int64,
  uint64,
  int128,
  uint128,  ///< averages of integers: the sum is exact
  float32,
  float64,
  complex64,
  complex128,
};

inline constexpr std::size_t accumulator_count = 13;

/// Size of one accumulator in bytes.
std::size_t size_of(Accumulator accumulator) noexcept;

/// accumulator[i] = accumulator[i] op other[i] for i < count. The two do not overlap. The result
/// does not depend on which operand is which, nor on the processor, bit for bit (but for sign and
/// payload of a NaN that arithmetic made). Here as everywhere below, arrays may have any alignment.
using CombineFunction = void (*)(void* accumulator, const void* other, std::size_t count);
/// What combine() does: a kernel, or a function of the program's. Of the latter the accumulator
/// holds what comes from lower ranks.
class Combiner {
 public:
  constexpr Combiner() = default;
  constexpr Combiner(CombineFunction kernel) : kernel_(kernel) {}  // NOLINT: it is one
  constexpr explicit Combiner(const CustomReduction& custom)
      : custom_(custom.function), context_(custom.context) {}

  void operator()(void* accumulator, const void* other, std::size_t count) const {
    if (kernel_ != nullptr) [[likely]]
      kernel_(accumulator, other, count);
    else
      custom_(accumulator, other, count, context_);
  }
  /// With null: whether there is none.
  friend constexpr bool operator==(const Combiner&, const Combiner&) = default;

 private:
  CombineFunction kernel_ = nullptr;
  CustomReduction::Function custom_ = nullptr;
  void* context_ = nullptr;
};

/// accumulator[i] = input[i], widened and scaled. `accumulator` == `input` is allowed when both
/// elements have the same size; otherwise they do not overlap.
using LoadFunction = void (*)(void* accumulator, const void* input, std::size_t count,
                              double factor);
/// output[i] = accumulator[i], divided by `ranks` for avg, and narrowed. Aliasing as for load.
using StoreFunction = void (*)(void* output, const void* accumulator, std::size_t count, int ranks);

/// How the result of a fold is written, besides being written to the output.
struct ResultPlaces {
  /// Gets the same bits. It is exactly one of the inputs, or overlaps none; it never overlaps the
  /// output.
  void* copy = nullptr;
  /// The output is written past the caches: for results that are large and not read soon.
  bool stream = false;
};

/// output[i] = inputs[0][first + i] op inputs[1][first + i] op …, in rank order, for i < count and
/// `ranks` >= 1 inputs that are accumulators. Aliasing as for reduce_all. What has been streamed is
/// ordered by finish_streaming(), not here.
using FoldFunction = void (*)(const void* const* inputs, int ranks, std::size_t first,
                              std::size_t count, void* output, ResultPlaces places);

/// output[i] = the sum of inputs[…][first + i], of which no bit is lost before it is rounded once;
/// so it does not depend on the order of the inputs. Aliasing as for FoldFunction.
using ExactFunction = void (*)(const void* const* inputs, int ranks, std::size_t first,
                               std::size_t count, void* output);

struct Reducer {
  DataType dtype = DataType::float32;
  ReduceKind kind = ReduceKind::sum;  ///< what combine computes; sum for avg and premul_sum
  Accumulator accumulator = Accumulator::float32;
  std::size_t element_bytes = 0;
  std::size_t accumulator_bytes = 0;
  double factor = 1.0;
  LoadFunction load = nullptr;  ///< null: the input is the accumulator
  Combiner combine{};
  StoreFunction store = nullptr;  ///< null: the accumulator is the result
  FoldFunction fold = nullptr;    ///< null: an input must be loaded first, or combine does it
  /// Not null: reduce_all sums with it. An algorithm that folds with `combine` cannot keep what
  /// Reproducibility::size promises.
  ExactFunction exact = nullptr;

  bool needs_load() const { return load != nullptr; }
  bool needs_store() const { return store != nullptr; }
};

/// The reducer of this type and operation. Throws UnsupportedError with the text of refusal() where
/// the table refuses it, and UsageError for a factor of premul_sum that the type cannot hold.
Reducer reducer_for(DataType dtype, const ReduceOp& op,
                    Reproducibility reproducibility = Reproducibility::ranks);

inline bool is_custom(ReduceKind kind) { return kind == ReduceKind::custom; }

/// Why the table refuses this cell, or this level of reproducibility for it; empty where it is
/// defined.
HYMN_PRIVATE std::string refusal(DataType dtype, ReduceKind kind,
                                 Reproducibility level = Reproducibility::ranks);

/// Whether another order of the inputs could give other bits (but for a NaN's): so it is where
/// steps round, and for operations that are not known.
bool order_matters(DataType dtype, ReduceKind kind);

/// The combine kernel of an accumulator; null where there is none (kind is never avg, premul_sum,
/// custom or opaque). For MPI_Op callbacks, which are made for an accumulator and a kind.
CombineFunction combine_function(Accumulator accumulator, ReduceKind kind);

/// Reduces `ranks` (at least 1) inputs in rank order into `output`, for algorithms that see all
/// inputs: load, fold and store block by block in cache. `output` may be one of the inputs
/// (exactly), or overlap none.
///
/// `factors` are the ranks' own factors of premul_sum; null where all have the reducer's.
///
/// When it returns, what it has written is ordered before the thread's next release store, streamed
/// or not.
///
/// Algorithms that fold by themselves use this for a single rank too: it is a copy, but min and max
/// replace every NaN by the canonical one, avg goes through division, and booleans become 0 or 1.
void reduce_all(const Reducer& reducer, const void* const* inputs, int ranks, void* output,
                std::size_t count, const double* factors = nullptr, ResultPlaces places = {});

}  // namespace hymn
