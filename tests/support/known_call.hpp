// One call of a collective, made from a few numbers that all members know: its buffers, its
// request, and the check of what it has written.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "tests/support/data.hpp"

namespace hymn::test {

/// What is to be called. The same on all members.
struct CallPlan {
  OpType type = OpType::all_reduce;
  DataType dtype = DataType::float32;
  ReduceKind kind = ReduceKind::sum;
  std::size_t count = 0;      ///< elements of the one buffer, or of every block
  std::size_t in_offset = 0;  ///< bytes by which the input misses the start of a cache line
  std::size_t out_offset = 0;
  int root = 0;           ///< as group rank
  int salt = 0;           ///< other data for another salt
  bool in_place = false;  ///< where the collective has that form; broadcast has no other
  bool uneven = false;    ///< blocks of different sizes, some of them empty
  bool listed = false;    ///< a list of blocks, which lie in memory in the opposite order
  bool wild = false;      ///< any bits as input, where the result does not depend on the order
};

/// "all_reduce of 17 float32 by sum, in place, …"
std::string describe(const CallPlan& plan);

/// An element type, and a reduction of it where the collective reduces.
struct Cell {
  DataType dtype;
  ReduceKind kind;
};
std::vector<Cell> cells_of(OpType type);

/// Draws the details of calls at random, from a seed: alike wherever it is asked alike.
class Drawer {
 public:
  explicit Drawer(std::uint64_t seed) : random_(seed) {}

  std::size_t below(std::size_t limit) { return random_() % limit; }
  template <class List>
  const typename List::value_type& one_of(const List& list) {
    return list[below(list.size())];
  }
  bool one_in(std::size_t chances) { return below(chances) == 0; }
  /// With any root, offsets, layout, and data, for a group of so many ranks.
  CallPlan plan(OpType type, Cell cell, std::size_t count, int ranks);

 private:
  std::mt19937_64 random_;
};

/// This member's part of the call. The request points into it.
class KnownCall {
 public:
  KnownCall(const ProcessGroup& group, const CallPlan& plan);
  KnownCall(const KnownCall&) = delete;
  KnownCall& operator=(const KnownCall&) = delete;

  const Request& request() const { return request_; }
  std::string describe() const { return test::describe(plan_); }
  /// Compares all buffers with what must be there after the call, bit for bit.
  void check() const;

 private:
  bool is_root() const { return me_ == plan_.root; }
  /// Whether this member has something on the side that the root alone needs.
  bool is_outside() const;
  bool shares_memory() const;
  std::size_t block_count(int from, int to) const;
  std::vector<std::size_t> counts_of_side(bool splits, bool input) const;
  /// Where a block begins in memory, in elements.
  std::size_t first_of(const std::vector<std::size_t>& counts, int index) const;
  BufferView block(BufferView all, const std::vector<std::size_t>& counts, int index) const;
  BufferView in_view(Buffer& memory) const;
  BufferView out_view(Buffer& memory) const;
  Request make_request();
  template <class Blocks, class View>
  Blocks laid_out(BufferView all, const std::vector<std::size_t>& counts,
                  std::vector<View>& list) const;

  void move(BufferView view, int from, int to) const;
  template <class Visit>
  void each_block(BufferView all, const std::vector<std::size_t>& counts, Visit visit) const;
  void fill_input(BufferView view) const;
  void fill_output(BufferView view) const;
  /// The ranks whose inputs are in this member's result.
  std::span<const int> reduced_ranks() const;
  void fill_result(BufferView view, std::size_t first) const;

  CallPlan plan_;
  std::vector<int> ranks_;  // the members, as global ranks
  int me_;
  std::vector<std::size_t> in_counts_;  // one for each block, or of the one buffer
  std::vector<std::size_t> out_counts_;
  std::vector<ConstBufferView> in_list_;
  std::vector<BufferView> out_list_;
  bool together_;  // input and output are one memory, which is out_
  Buffer in_;
  Buffer out_;
  Buffer before_;
  Request request_;
};

}  // namespace hymn::test
