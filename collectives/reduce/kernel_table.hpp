// The kernels of all element types, as plain function pointers for one instruction set.
//
// Each family of types (integers, floats, halves, complex) is compiled once for each instruction
// set and enters its pointers into the table; a Reducer copies the ones it needs out of it.
#pragma once

#include <array>

#include "collectives/reduce/reducer.hpp"

namespace hymn::detail {

constexpr bool is_order(ReduceKind kind) { return traits_of(kind).family == ReduceFamily::order; }

/// Into accumulator form and out of it. Null: nothing to do, or not defined.
struct ConversionKernels {
  LoadFunction load = nullptr;
  LoadFunction load_scaled = nullptr;   ///< premul_sum
  LoadFunction load_average = nullptr;  ///< avg
  LoadFunction load_truth = nullptr;    ///< land, lor, lxor: 0 or 1
  StoreFunction store = nullptr;
  StoreFunction store_average = nullptr;
};

/// Null, in any cell: there is no such kernel.
class KernelTable {
 public:
  CombineFunction& combine(Accumulator accumulator, ReduceKind kind) {
    return combine_[index(accumulator)][index(kind)];
  }
  CombineFunction combine(Accumulator accumulator, ReduceKind kind) const {
    return combine_[index(accumulator)][index(kind)];
  }
  /// Null: fold with combine.
  FoldFunction& fold(Accumulator accumulator, ReduceKind kind) {
    return fold_[index(accumulator)][index(kind)];
  }
  FoldFunction fold(Accumulator accumulator, ReduceKind kind) const {
    return fold_[index(accumulator)][index(kind)];
  }
  /// Sums; null: sums of this accumulator never round, or are not inputs of anything.
  ExactFunction& exact(Accumulator accumulator) { return exact_[index(accumulator)]; }
  ExactFunction exact(Accumulator accumulator) const { return exact_[index(accumulator)]; }
  /// Sums of float32, ready to be rounded again to a half.
  ExactFunction& exact_to_odd() { return exact_to_odd_; }
  ExactFunction exact_to_odd() const { return exact_to_odd_; }
  ConversionKernels& conversion(DataType dtype) { return conversions_[index(dtype)]; }
  const ConversionKernels& conversion(DataType dtype) const { return conversions_[index(dtype)]; }

 private:
  template <class Enum>
  static constexpr std::size_t index(Enum value) {
    return static_cast<std::size_t>(value);
  }

  std::array<std::array<CombineFunction, reduce_kind_count>, accumulator_count> combine_{};
  std::array<std::array<FoldFunction, reduce_kind_count>, accumulator_count> fold_{};
  std::array<ExactFunction, accumulator_count> exact_{};
  ExactFunction exact_to_odd_ = nullptr;
  std::array<ConversionKernels, data_type_count> conversions_{};
};

void add_integer_kernels(KernelTable& table);
void add_float_kernels(KernelTable& table);
void add_half_kernels(KernelTable& table);
void add_complex_kernels(KernelTable& table);
void add_fold_kernels(KernelTable& table);
void add_exact_kernels(KernelTable& table);

/// The kernels for Highway's chosen instruction set. Tests choose; the product takes the best.
KernelTable make_kernel_table();

/// As reducer_for, with kernels from a given table.
Reducer make_reducer(const KernelTable& table, DataType dtype, const ReduceOp& op,
                     Reproducibility level = Reproducibility::ranks);

}  // namespace hymn::detail
