#include "collectives/shm/direct_part.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/plan.hpp"
#include "collectives/shm/step_budget.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

/// A piece is long against what it takes to announce a touch, and short for who waits for its end.
constexpr std::size_t piece_bytes = std::size_t{128} << 10;

std::optional<HeapPlace> find(const void* data, std::size_t bytes) {
  return SharedHeap::of_process().find(data, bytes);
}

bool overlap(const ConstBufferView& in, const BufferView& out) {
  const auto* const i = static_cast<const std::byte*>(in.data);
  const auto* const o = static_cast<const std::byte*>(out.data);
  return i < o + out.bytes() && o < i + in.bytes();
}

/// Elements of the blocks before this one.
std::size_t elements_before(const InputBlocks& blocks, int index, int parts) {
  std::size_t before = 0;
  for (int i = 0; i < index; ++i) before += blocks.block(i, parts).count;
  return before;
}

/// What one step does of a member's part.
class Part {
 public:
  Part(const DirectBoard& board, const Call& call, int me, int members, const Reducer* reducer,
       std::size_t& pieces_done)
      : board_(board),
        request_(*call.request),
        root_(call.peer),
        me_(me),
        members_(members),
        reducer_(reducer),
        pieces_done_(pieces_done),
        to_skip_(pieces_done) {}

  /// False when something may be left.
  bool run() {
    all_pieces();
    return !budget_.is_done();
  }

 private:
  void all_pieces() {
    if (request_.type == OpType::all_reduce) return all_reduce();
    if (request_.type == OpType::reduce) return reduce();
    if (request_.type == OpType::reduce_scatter) return reduce_scatter();
    if (request_.type == OpType::broadcast) return broadcast();
    if (request_.type == OpType::all_gather) return all_gather();
    if (request_.type == OpType::all_to_all) return all_to_all();
    throw Error(ErrorKind::internal,
                fmt::format("{} has no direct form", to_string(request_.type)));
  }

  /// This member's slice of what all fold; slices begin on lines as far as the buffers do.
  Slice own_slice() const {
    constexpr std::size_t line = 64;
    const std::size_t in_line = line / reducer_->element_bytes;
    const std::size_t count = request_.inputs.flat().count;
    const Slice lines = even_slice((count + in_line - 1) / in_line, me_, members_);
    const std::size_t offset = std::min(count, lines.offset * in_line);
    return {offset, std::min(lines.count * in_line, count - offset)};
  }

  const std::byte* input(int member) const {
    return member == me_ ? static_cast<const std::byte*>(request_.inputs.flat().data)
                         : board_.input(member);
  }
  std::byte* output(int member) const {
    return member == me_ ? static_cast<std::byte*>(request_.outputs.flat().data)
                         : board_.output(member);
  }

  /// Folds elements from `from` on of all inputs; `places` as in reduce_all.
  void fold(std::size_t from, std::size_t count, void* to, ResultPlaces places) {
    budget_.add(count * reducer_->element_bytes * static_cast<std::size_t>(members_));
    FoldInputs inputs;
    const bool scaled = request_.op.kind() == ReduceKind::premul_sum;
    for (int member = 0; member < members_; ++member) {
      const auto index = static_cast<std::size_t>(member);
      inputs.data[index] = input(member) + from * reducer_->element_bytes;
      if (scaled) inputs.factors[index] = board_.shown(member).factor;
    }
    reduce_all(*reducer_, inputs.data.data(), members_, to, count,
               scaled ? inputs.factors.data() : nullptr, places);
  }

  /// Without those that earlier steps have done, as far as this step goes.
  template <class Work>
  void in_pieces(Slice slice, std::size_t element_bytes, Work work) {
    const std::size_t each = std::max<std::size_t>(64, piece_bytes / element_bytes / 64 * 64);
    const std::size_t pieces = (slice.count + each - 1) / each;
    std::size_t piece = std::min(pieces, to_skip_);
    to_skip_ -= piece;
    for (; piece < pieces && !budget_.is_done(); ++piece, ++pieces_done_) {
      const DirectBoard::Touch touch(board_);
      work(slice.offset + piece * each, std::min(each, slice.count - piece * each));
    }
  }

  // What is written has not been read before, and will not be soon.
  bool streams() const {
    const auto& in = request_.inputs.flat();
    return in.data != request_.outputs.flat().data && in.bytes() >= std::size_t{1} << 20;
  }

  void all_reduce() {
    const std::size_t size = reducer_->element_bytes;
    const int next = (me_ + 1) % members_;
    const bool stream = streams();
    in_pieces(own_slice(), size, [&](std::size_t from, std::size_t count) {
      std::byte* const own = output(me_) + from * size;
      fold(from, count, own,
           {.copy = members_ > 1 ? output(next) + from * size : nullptr,
            .stream = stream && members_ <= 2});
      for (int i = 2; i < members_; ++i)
        copy_bytes(output((me_ + i) % members_) + from * size, own, count * size, stream);
    });
  }

  void reduce() {
    const std::size_t size = reducer_->element_bytes;
    in_pieces(own_slice(), size, [&](std::size_t from, std::size_t count) {
      fold(from, count, output(root_) + from * size, {});
    });
  }

  void reduce_scatter() {
    const BufferView& out = request_.outputs.flat();
    const std::size_t size = reducer_->element_bytes;
    const std::size_t before = elements_before(request_.inputs, me_, members_);
    in_pieces({0, out.count}, size, [&](std::size_t from, std::size_t count) {
      fold(before + from, count, static_cast<std::byte*>(out.data) + from * size, {});
    });
  }

  void copy_from(const std::byte* from, const BufferView& to) {
    if (from == to.data) return;
    const bool stream = to.bytes() >= std::size_t{1} << 20;
    in_pieces({0, to.bytes()}, 1, [&](std::size_t offset, std::size_t bytes) {
      copy_bytes(static_cast<std::byte*>(to.data) + offset, from + offset, bytes, stream);
      budget_.add(bytes);
    });
  }

  void broadcast() {
    if (me_ != root_) copy_from(board_.input(root_), request_.outputs.flat());
  }

  void all_gather() {
    request_.outputs.for_each(members_, [this](int member, const BufferView& block) {
      if (block.count != 0) copy_from(input(member), block);
    });
  }

  void all_to_all() {
    const std::size_t mine =
        elements_before(request_.inputs, me_, members_) * request_.inputs.flat().element_bytes();
    request_.outputs.for_each(members_, [&](int member, const BufferView& block) {
      if (block.count != 0) copy_from(input(member) + mine, block);
    });
  }

  const DirectBoard& board_;
  const Request& request_;
  int root_;
  int me_;
  int members_;
  const Reducer* reducer_;
  std::size_t& pieces_done_;
  std::size_t to_skip_;  ///< pieces that are done, of those that have not been come to
  StepBudget budget_;
};

bool has_direct_form(OpType type) {
  return type == OpType::all_reduce || type == OpType::reduce || type == OpType::reduce_scatter ||
         type == OpType::broadcast || type == OpType::all_gather || type == OpType::all_to_all;
}

/// Whether others can read and write all that they have to of this member, of which `in` and `out`
/// are the buffers that they can reach.
bool is_usable(const Request& request, bool is_root, bool in, bool out) {
  if (request.type == OpType::all_reduce) return in && out;
  if (request.type == OpType::reduce) return in && (out || !is_root);
  if (request.type == OpType::broadcast) return in || !is_root;
  if (request.type == OpType::reduce_scatter) return in;
  // Of whom gives nothing, nothing is read.
  if (request.type == OpType::all_gather) return in || request.inputs.flat().count == 0;
  return request.type == OpType::all_to_all && in && request.outputs.layout() == Layout::equal &&
         !overlap(request.inputs.flat(), request.outputs.flat());
}

}  // namespace

std::size_t direct_bytes(const Request& request) {
  if (!has_direct_form(request.type) || request.inputs.dtype() == DataType::opaque) return 0;
  const bool gathers = request.type == OpType::all_gather;
  // Blocks of an all_to_all are only known to agree where all are equal.
  if (request.type == OpType::all_to_all && request.inputs.layout() != Layout::equal) return 0;
  return gathers ? request.outputs.total_count() * request.outputs.element_bytes()
                 : request.inputs.total_count() * request.inputs.element_bytes();
}

bool everybody_hears_everybody(const Request& request, int members) {
  bool all = request.type != OpType::reduce && request.type != OpType::broadcast;
  const auto has_some = [&all](int, const auto& block) { all = all && block.count != 0; };
  if (request.type == OpType::all_gather) request.outputs.for_each(members, has_some);
  if (request.type == OpType::reduce_scatter) request.inputs.for_each(members, has_some);
  return all;
}

DirectCall direct_call(const Call& call, int me) {
  const Request& request = *call.request;
  const bool one_input = request.inputs.layout() != Layout::list;
  DirectCall shown;
  shown.factor = request.op.factor();
  if (one_input) {
    const auto place = find(request.inputs.flat().data, request.inputs.flat().bytes());
    if (place) shown.input = *place;
  }
  const bool all_reduce = request.type == OpType::all_reduce;
  if (all_reduce || (request.type == OpType::reduce && me == call.peer)) {
    const auto place = find(request.outputs.flat().data, request.outputs.flat().bytes());
    if (place) shown.output = *place;
  }
  shown.usable =
      is_usable(request, me == call.peer, shown.input.token != 0, shown.output.token != 0);
  return shown;
}

bool do_direct_part(const DirectBoard& board, const Call& call, int me, int members,
                    const Reducer* reducer, std::size_t& pieces_done) {
  return Part(board, call, me, members, reducer, pieces_done).run();
}

}  // namespace hymn
