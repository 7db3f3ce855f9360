// Predictable data: what each rank puts in, and what must come out, bit for bit.
#pragma once

#include <cstddef>
#include <vector>

#include "hymn/buffer.hpp"

namespace hymn {

/// A sequence that repeats: element i is element i % period. Every rank's input is the same
/// sequence from another phase on, so a reduction of inputs is such a sequence too, and moving all
/// phases by the same step (which alters the inputs from one iteration to the next) moves the
/// result's as much.
class PeriodicData {
 public:
  /// A prime: phases of ranks and iterations, which are multiples of small numbers, rarely
  /// coincide.
  static constexpr std::size_t period = 509;

  explicit PeriodicData(DataType dtype);

  std::byte* at(std::size_t index) { return bytes_.data() + index * element_bytes_; }

  /// Writes element `phase` and those that follow it.
  void fill(BufferView out, std::size_t phase) const;
  /// How many elements of `got` differ from element `phase` and those that follow it.
  std::size_t count_wrong(ConstBufferView got, std::size_t phase) const;

 private:
  std::size_t element_bytes_;
  std::vector<std::byte> bytes_;
};

/// The phase at which the input of a rank begins.
constexpr std::size_t phase_of_rank(int rank) { return static_cast<std::size_t>(rank) * 71; }
/// How far all phases have moved on in an iteration.
constexpr std::size_t phase_of_iteration(std::size_t iteration) { return iteration * 31; }

/// Inputs that every order of reduction reduces exactly: whole numbers, small enough for the number
/// of ranks.
PeriodicData bench_input(DataType dtype, ReduceKind kind, int ranks);
/// What the reduction of the inputs of the first `reduced` of all ranks must be, by arithmetic that
/// shares nothing with the library's kernels.
PeriodicData bench_result(DataType dtype, ReduceOp op, int ranks, int reduced);

/// Beyond this number of ranks the products of bench_input are not exact any more.
inline constexpr int max_product_ranks = 20;

}  // namespace hymn
