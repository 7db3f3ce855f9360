// Test data without templates: buffers of any element type, filled with what can be predicted
// exactly, and what reductions must make of them, computed from whole numbers by other means than
// hymn's own.
#pragma once

#include <array>
#include <cstdint>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "hymn/hymn.hpp"
#include "tests/support/memory.hpp"

namespace hymn::test {

/// Counts around what matters to vectors, blocks and chunks.
inline constexpr std::array<std::size_t, 9> every_count = {0, 1, 2, 7, 63, 64, 65, 1000, 4099};
/// Counts around the width of a vector of bytes.
inline constexpr std::array<std::size_t, 5> byte_counts = {1, 15, 16, 17, 1000};

/// All element types but opaque.
std::span<const DataType> all_dtypes();
/// All kinds but opaque.
std::span<const ReduceKind> all_kinds();
/// Whether docs/dtypes.md defines this reduction.
bool is_defined(DataType dtype, ReduceKind kind);
bool is_complex(DataType dtype);

/// Memory of `count` elements with guards on both sides; starts out as filler that no test expects.
/// It begins `offset` bytes (below 64) behind the start of a cache line.
class Buffer {
 public:
  Buffer() : Buffer(DataType::uint8, 0) {}
  Buffer(DataType dtype, std::size_t count, std::size_t offset = 0);

  DataType dtype() const { return dtype_; }
  std::size_t count() const { return count_; }
  std::byte* data() { return lines_[1].bytes.data() + offset_; }
  const std::byte* data() const { return lines_[1].bytes.data() + offset_; }
  std::size_t bytes() const { return count_ * size_of(dtype_); }

  BufferView view() { return BufferView(data(), count_, dtype_); }
  ConstBufferView view() const { return ConstBufferView(data(), count_, dtype_); }
  operator BufferView() { return view(); }             // NOLINT: a buffer is passed as its view
  operator ConstBufferView() const { return view(); }  // NOLINT: likewise
  BufferView slice(std::size_t offset, std::size_t count) { return view().slice(offset, count); }

  /// Nothing was written beyond either end.
  bool guards_intact() const;
  /// It must not be written to any more; where it lies in pages of its own, it cannot.
  void protect() const { lines_.get_allocator().protect(lines_.data(), lines_.size()); }

  static constexpr std::byte filler{0xa5};

 private:
  struct alignas(64) Line {
    std::array<std::byte, 64> bytes;
  };
  DataType dtype_;
  std::size_t count_;
  std::size_t offset_;
  std::vector<Line, Memory<Line>> lines_;
};

// --- Moved data: bytes that tell where they come from
// ---------------------------------------------

/// Fills with bytes that depend on `source` (mostly the sending rank), `salt` and the place.
void fill(BufferView view, int source, int salt = 0);
Buffer filled(DataType dtype, std::size_t count, int source, int salt = 0);
void expect_filled(ConstBufferView view, int source, int salt = 0,
                   std::source_location where = std::source_location::current());
/// Still holds nothing but filler.
void expect_untouched(ConstBufferView view,
                      std::source_location where = std::source_location::current());

// --- Reduced data: small whole numbers that every element type holds exactly
// -----------------------

/// The operation of this kind as `rank` passes it: premul_sum has another factor on every rank.
ReduceOp op_of(ReduceKind kind, DataType dtype, int rank);
/// What `rank` puts in: elements first … first + count of its input.
void fill_numbers(BufferView view, ReduceKind kind, int rank, std::size_t first = 0);
Buffer reduction_input(DataType dtype, ReduceKind kind, int rank, std::size_t count,
                       std::size_t first = 0);
/// What the reduction of the inputs of `ranks` must be, bit for bit.
Buffer reduction_result(DataType dtype, ReduceKind kind, std::span<const int> ranks,
                        std::size_t count, std::size_t first = 0);

/// Compares bit for bit, and tells the first element that differs.
void expect_equal(ConstBufferView expected, ConstBufferView actual,
                  std::source_location where = std::source_location::current());
/// All members hold the same bits.
void expect_same_everywhere(ProcessGroup& group, ConstBufferView mine,
                            std::source_location where = std::source_location::current());

/// The group ranks of a group as global ranks.
inline const std::vector<int>& ranks_of(const ProcessGroup& group) {
  return group.membership().ranks;
}

/// "float16 avg", for traces.
std::string cell_name(DataType dtype, ReduceKind kind);

}  // namespace hymn::test
