// What can be measured: one table row for each collective.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "hymn/process_group.hpp"

namespace hymn {

/// One measurement, as one rank sees it.
struct BenchShape {
  int rank = 0;
  int ranks = 1;
  int root = 0;
  std::size_t count =
      0;  ///< as nccl-tests counts: the elements of one block where there are blocks
  bool in_place = false;
};

/// How much a rank gives to a collective, or gets from it.
enum class Extent : unsigned char {
  nothing,
  one,   ///< count elements
  each,  ///< count elements for, or from, every rank
};

struct BenchCase {
  std::string_view name;
  OpType type;
  Extent input;
  bool input_on_root_only;
  Extent output;
  bool output_on_root_only;
  bool reduces;
  bool out_of_place;  ///< whether the collective has such a form
  bool in_place;
  double (*bus_factor)(int ranks);  ///< busbw / algbw, as nccl-tests defines it
  Request (*request)(const BenchShape& shape, ConstBufferView in, BufferView out, ReduceOp op);

  bool is_rooted() const { return input_on_root_only || output_on_root_only; }
  /// Whether the size counts one block of every rank.
  bool has_blocks() const { return input == Extent::each || output == Extent::each; }
  bool has_data() const { return input != Extent::nothing; }

  /// Elements of this rank's input and output; both are 0 where it gives or gets nothing.
  std::size_t input_count(const BenchShape& shape) const;
  std::size_t output_count(const BenchShape& shape) const;
  /// Where it reduces: how many ranks, from the first one on, are in the result on this one.
  int reduced_ranks(int rank, int ranks) const;
};

/// In the order in which help texts list them.
std::span<const BenchCase> bench_cases();
/// Null when there is none of that name.
const BenchCase* find_bench_case(std::string_view name);

/// One measurement's buffers and request on this rank, cut out of memory that lies elsewhere.
class BenchCall {
 public:
  /// `first` and `second` hold whatever either side needs; in place only `first` is used.
  BenchCall(const BenchCase& bench_case, const BenchShape& shape, DataType dtype, ReduceOp op,
            void* first, void* second, MemoryKind memory = MemoryKind::host);

  const BufferView& input() const { return input_; }
  const BufferView& output() const { return output_; }
  /// The request whose path is shown. For send_recv that is the send of it.
  const Request& request() const { return request_; }

  void run(ProcessGroup& group) const {
    if (ring_.empty()) {
      group.run(request_);
    } else {
      group.batch_isend_irecv(ring_).wait();
    }
  }
  /// Returns when it is on the stream.
  void enqueue(ProcessGroup& group, void* stream) const {
    if (ring_.empty()) {
      group.run(request_, {.stream = stream});
    } else {
      (void)group.batch_isend_irecv(ring_, {.stream = stream});
    }
  }

  /// A stretch of the output, and the phase at which the pattern that it must hold begins.
  struct Expected {
    BufferView where;
    std::size_t phase = 0;
  };
  /// All of the output. The pattern is that of the reduction where the collective reduces, else
  /// that of the inputs.
  const std::vector<Expected>& expected() const { return expected_; }

 private:
  void expect(const BenchCase& bench_case, const BenchShape& shape);

  BufferView input_;
  BufferView output_;
  Request request_;
  std::vector<P2POp> ring_;
  std::vector<Expected> expected_;
};

}  // namespace hymn
