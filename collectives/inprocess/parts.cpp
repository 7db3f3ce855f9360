#include "collectives/inprocess/parts.hpp"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "collectives/plan.hpp"
#include "collectives/reduce/reducer.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

void copy(const ConstBufferView& from, const BufferView& to) {
  if (from.data != to.data && from.bytes() != 0) std::memcpy(to.data, from.data, from.bytes());
}

/// What reduce_all wants to know of every member, without the heap for groups of usual size.
class Inputs {
 public:
  /// `input_of(request)` is what a member contributes.
  template <class InputOf>
  Inputs(const PeerCalls& peers, InputOf&& input_of) {
    if (peers.size() > small_size) {
      large_pointers_.resize(static_cast<std::size_t>(peers.size()));
      large_factors_.resize(static_cast<std::size_t>(peers.size()));
      pointers_ = large_pointers_.data();
      factors_ = large_factors_.data();
    }
    for (int member = 0; member < peers.size(); ++member) {
      const Request& request = peers.request(member);
      pointers_[member] = input_of(request).data;
      factors_[member] = request.op.factor();
    }
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  const void* const* pointers() const { return pointers_; }
  const double* factors() const { return factors_; }

 private:
  static constexpr int small_size = 64;
  const void* small_pointers_[small_size];
  double small_factors_[small_size];
  std::vector<const void*> large_pointers_;
  std::vector<double> large_factors_;
  const void** pointers_ = small_pointers_;
  double* factors_ = small_factors_;
};

/// Every rank reduces one slice of all inputs, so that each element is computed once.
void reduce_slice(const PeerCalls& peers, GroupShape shape, const Request& mine, Slice slice,
                  void* output) {
  const Inputs inputs(peers, [slice](const Request& request) {
    return request.inputs.flat().slice(slice.offset, slice.count);
  });
  reduce_all(reducer_for(mine.inputs.dtype(), mine.op, shape.reproducibility), inputs.pointers(),
             peers.size(), output, slice.count, inputs.factors());
}

// The slice goes to all outputs. In place this is safe: a slice of anybody's memory is touched by
// one rank alone.
void all_reduce_part(const PeerCalls& peers, GroupShape shape, const Request& mine) {
  const Slice slice = even_slice(mine.inputs.flat().count, shape.rank, shape.size);
  if (slice.count == 0) return;
  const BufferView own = mine.outputs.flat().slice(slice.offset, slice.count);
  reduce_slice(peers, shape, mine, slice, own.data);
  for (int member = 0; member < shape.size; ++member)
    if (member != shape.rank)
      copy(own, peers.request(member).outputs.flat().slice(slice.offset, slice.count));
}

void reduce_part(const PeerCalls& peers, GroupShape shape, const Call& mine) {
  const Slice slice = even_slice(mine.request->inputs.flat().count, shape.rank, shape.size);
  if (slice.count == 0) return;
  const BufferView& output = peers.request(mine.peer).outputs.flat();
  reduce_slice(peers, shape, *mine.request, slice, output.slice(slice.offset, slice.count).data);
}

void reduce_scatter_part(const PeerCalls& peers, GroupShape shape, const Request& mine) {
  const BufferView output = mine.outputs.flat();
  if (output.count == 0) return;
  const Inputs inputs(peers, [shape](const Request& request) {
    return request.inputs.block(shape.rank, shape.size);
  });
  reduce_all(reducer_for(mine.inputs.dtype(), mine.op, shape.reproducibility), inputs.pointers(),
             shape.size, output.data, output.count, inputs.factors());
}

// Of a slice every rank makes the results for all, from the last rank down: in place, what is
// overwritten is no part of those that remain.
void scan_part(const PeerCalls& peers, GroupShape shape, const Request& mine) {
  const Slice slice = even_slice(mine.inputs.flat().count, shape.rank, shape.size);
  if (slice.count == 0) return;
  const Inputs inputs(peers, [slice](const Request& request) {
    return request.inputs.flat().slice(slice.offset, slice.count);
  });
  const Reducer reducer = reducer_for(mine.inputs.dtype(), mine.op, shape.reproducibility);
  for (int member = shape.size - 1; member >= 0; --member) {
    const int ranks = mine.type == OpType::scan ? member + 1 : member;
    if (ranks == 0) return;
    const BufferView& output = peers.request(member).outputs.flat();
    reduce_all(reducer, inputs.pointers(), ranks, output.slice(slice.offset, slice.count).data,
               slice.count, inputs.factors());
  }
}

void gather_part(const PeerCalls& peers, const Request& mine) {
  mine.outputs.for_each(peers.size(), [&](int member, const BufferView& block) {
    copy(peers.request(member).inputs.flat(), block);
  });
}

/// Between this rank and one above it, both ways. What one in place gets is put where what it gives
/// lies, so that comes last; where both are, through a copy.
void swap_blocks(const Request& low, int low_rank, const Request& high, int high_rank, int size,
                 std::vector<std::byte>& copied) {
  const ConstBufferView up = low.inputs.block(high_rank, size);
  const ConstBufferView down = high.inputs.block(low_rank, size);
  const BufferView to_low = low.outputs.block(high_rank, size);
  const BufferView to_high = high.outputs.block(low_rank, size);
  if (!is_in_place(low)) {
    copy(down, to_low);
    copy(up, to_high);
  } else if (!is_in_place(high) || up.bytes() == 0) {
    copy(up, to_high);
    copy(down, to_low);
  } else {
    copied.resize(up.bytes());
    std::memcpy(copied.data(), up.data, up.bytes());
    copy(down, to_low);
    std::memcpy(to_high.data, copied.data(), up.bytes());
  }
}

// In place, what others have yet to read would be overwritten by what arrives: so where one of two
// ranks is, the lower one moves the blocks of both. Otherwise each fetches its own.
void all_to_all_part(const PeerCalls& peers, GroupShape shape, const Request& mine) {
  std::vector<std::byte> copied;
  mine.outputs.for_each(shape.size, [&](int member, const BufferView& block) {
    const Request& theirs = peers.request(member);
    const bool moves_both = member != shape.rank && (is_in_place(mine) || is_in_place(theirs));
    if (!moves_both)
      copy(theirs.inputs.block(shape.rank, shape.size), block);
    else if (shape.rank < member)
      swap_blocks(mine, shape.rank, theirs, member, shape.size, copied);
  });
}

}  // namespace

bool is_in_place(const Request& request) {
  return request.inputs.layout() == Layout::equal && request.inputs.flat().count != 0 &&
         request.inputs.flat().data == request.outputs.flat().data;
}

void inprocess_part(const PeerCalls& peers, GroupShape shape, const Call& mine) {
  const Request& request = *mine.request;
  switch (request.type) {
    case OpType::all_reduce:
      all_reduce_part(peers, shape, request);
      break;
    case OpType::reduce:
      reduce_part(peers, shape, mine);
      break;
    case OpType::reduce_scatter:
      reduce_scatter_part(peers, shape, request);
      break;
    case OpType::scan:
    case OpType::exscan:
      scan_part(peers, shape, request);
      break;
    case OpType::broadcast:
      copy(peers.request(mine.peer).inputs.flat(), request.outputs.flat());
      break;
    case OpType::gather:
      if (shape.rank == mine.peer) gather_part(peers, request);
      break;
    case OpType::scatter:
      copy(peers.request(mine.peer).inputs.block(shape.rank, shape.size), request.outputs.flat());
      break;
    case OpType::all_gather:
      gather_part(peers, request);
      break;
    case OpType::all_to_all:
      all_to_all_part(peers, shape, request);
      break;
    case OpType::barrier:
      break;  // it is the meeting itself
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
    case OpType::probe:
      throw Error(ErrorKind::internal, fmt::format("ranks that are threads have no collective {}",
                                                   to_string(request.type)));
  }
}

}  // namespace hymn
