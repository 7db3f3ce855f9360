// What is asked of a group, as one plain value: every collective call becomes a Request first.
//
// A Request owns nothing: views, lists and counts must outlive a blocking call. An asynchronous
// call copies the lists and counts, but never the data.
#pragma once

#include "hymn/standard.hpp"  // first

#include <span>

#include "hymn/buffer.hpp"
#include "hymn/op_type.hpp"

namespace hymn {

/// recv and probe: take a message from whoever sends first. Fails with a PeerError where none has
/// come and a member has died, for that may have been the sender; and where all others have left.
inline constexpr int any_source = -1;

/// How the blocks that concern each rank lie in memory.
enum class Layout : std::uint8_t {
  none,     ///< nothing on this rank (a non-root's side of a gather)
  whole,    ///< one buffer that concerns all ranks alike
  equal,    ///< one buffer cut into as many equal blocks as there are ranks
  counted,  ///< one buffer cut into blocks of given sizes, in rank order, without gaps
  list,     ///< one buffer for each rank
};

/// The buffers of one side of a request. Block i is what concerns group rank i.
template <class View>
class Blocks {
 public:
  constexpr Blocks() = default;
  static constexpr Blocks whole(View view) { return Blocks(Layout::whole, view, {}, {}); }
  static constexpr Blocks equal(View view) { return Blocks(Layout::equal, view, {}, {}); }
  static constexpr Blocks counted(View view, std::span<const std::size_t> counts) {
    return Blocks(Layout::counted, view, {}, counts);
  }
  static constexpr Blocks list(std::span<const View> views) {
    return Blocks(Layout::list, {}, views, {});
  }

  constexpr Layout layout() const { return layout_; }
  /// The one buffer of every layout but list and none.
  constexpr const View& flat() const { return flat_; }
  constexpr std::span<const View> views() const {
    if (layout_ == Layout::list) return list_;
    return {&flat_, layout_ == Layout::none ? std::size_t{0} : std::size_t{1}};
  }
  constexpr std::span<const std::size_t> counts() const { return counts_; }

  constexpr DataType dtype() const {
    return layout_ == Layout::list && !list_.empty() ? list_.front().dtype : flat_.dtype;
  }
  constexpr MemoryKind memory() const {
    return layout_ == Layout::list && !list_.empty() ? list_.front().memory : flat_.memory;
  }
  constexpr std::size_t element_bytes() const {
    return views().empty() ? 0 : views().front().element_bytes();
  }
  constexpr std::size_t total_count() const {
    if (layout_ != Layout::list) return flat_.count;
    std::size_t total = 0;
    for (const View& view : list_) total += view.count;
    return total;
  }

  /// Block `index` of `parts`. Linear in index for Layout::counted: prefer for_each over all
  /// blocks.
  View block(int index, int parts) const {
    const auto i = static_cast<std::size_t>(index);
    switch (layout_) {
      case Layout::none:
        return {};
      case Layout::whole:
        return flat_;
      case Layout::equal: {
        const std::size_t each = flat_.count / static_cast<std::size_t>(parts);
        return flat_.slice(i * each, each);
      }
      case Layout::counted: {
        std::size_t offset = 0;
        for (const std::size_t before : counts_.first(i)) offset += before;
        return flat_.slice(offset, counts_[i]);
      }
      case Layout::list:
        return list_[i];
    }
    return {};
  }

  /// Calls visit(index, block) for every rank, in rank order.
  template <class Visit>
  void for_each(int parts, Visit&& visit) const {
    if (layout_ == Layout::none) return;
    if (layout_ == Layout::list || layout_ == Layout::whole) {
      for (int index = 0; index < parts; ++index) visit(index, block(index, parts));
      return;
    }
    const std::size_t each =
        layout_ == Layout::equal ? flat_.count / static_cast<std::size_t>(parts) : 0;
    std::size_t offset = 0;
    for (int index = 0; index < parts; ++index) {
      const std::size_t length =
          layout_ == Layout::equal ? each : counts_[static_cast<std::size_t>(index)];
      visit(index, flat_.slice(offset, length));
      offset += length;
    }
  }

  /// The same blocks, described by lists that live elsewhere (for requests that outlive their
  /// call).
  constexpr Blocks with_lists(std::span<const View> views,
                              std::span<const std::size_t> counts) const {
    return Blocks(layout_, flat_, views, counts);
  }

 private:
  constexpr Blocks(Layout layout, View flat, std::span<const View> list,
                   std::span<const std::size_t> counts)
      : layout_(layout), flat_(flat), list_(list), counts_(counts) {}

  Layout layout_ = Layout::none;
  View flat_{};
  std::span<const View> list_{};
  std::span<const std::size_t> counts_{};
};

using InputBlocks = Blocks<ConstBufferView>;
using OutputBlocks = Blocks<BufferView>;

/// Where operations are ordered: by the calls of the host thread, or by a device stream. Work on a
/// stream is enqueued at its start; work captured into a graph is never polled.
struct OrderingDomain {
  enum class Kind : std::uint8_t { host, stream, captured_stream };
  Kind kind = Kind::host;
  void* stream = nullptr;
};

struct Request {
  OpType type = OpType::barrier;
  ReduceOp op{};
  InputBlocks inputs{};
  OutputBlocks outputs{};
  int peer =
      -1;  ///< *global* rank: the root of a rooted collective, or the other side of send / recv
  int tag = 0;  ///< send and recv only
  OrderingDomain domain{};

  /// Reduces `in` element by element over all ranks; every rank gets the same bits in `out`.
  static constexpr Request all_reduce(ConstBufferView in, BufferView out, ReduceOp op = {}) {
    Request request(OpType::all_reduce, InputBlocks::whole(in), OutputBlocks::whole(out));
    request.op = op;
    return request;
  }
  /// Copies the root's buffer into everybody's.
  static constexpr Request broadcast(BufferView inout, int root) {
    return Request(OpType::broadcast, InputBlocks::whole(inout), OutputBlocks::whole(inout), root);
  }
  /// As all_reduce, with the result on the root only; `out` is ignored elsewhere, but
  /// refused where it is of another dtype, unless it is empty.
  static constexpr Request reduce(ConstBufferView in, BufferView out, int root, ReduceOp op = {}) {
    Request request(OpType::reduce, InputBlocks::whole(in), OutputBlocks::whole(out), root);
    request.op = op;
    return request;
  }
  /// The root's block i receives rank i's input. Other ranks give their output in the same form as
  /// the root, for the way of carrying it out depends on the form: equal or counted blocks of a
  /// buffer that may be empty, or OutputBlocks() where the root gives a list.
  static constexpr Request gather(ConstBufferView in, OutputBlocks out, int root) {
    return Request(OpType::gather, InputBlocks::whole(in), out, root);
  }
  /// Rank i's output receives the root's block i. Other ranks give their input in the same form as
  /// the root: see gather.
  static constexpr Request scatter(InputBlocks in, BufferView out, int root) {
    return Request(OpType::scatter, in, OutputBlocks::whole(out), root);
  }
  /// Everybody's block i receives rank i's input. Here, in reduce_scatter and in all_to_all all
  /// ranks give their blocks in the same form: equal, counted, or as a list.
  static constexpr Request all_gather(ConstBufferView in, OutputBlocks out) {
    return Request(OpType::all_gather, InputBlocks::whole(in), out);
  }
  /// Rank i's output receives the reduction of everybody's block i.
  static constexpr Request reduce_scatter(InputBlocks in, BufferView out, ReduceOp op = {}) {
    Request request(OpType::reduce_scatter, in, OutputBlocks::whole(out));
    request.op = op;
    return request;
  }
  /// Reduces, in the order of ranks, the inputs of the ranks up to and with each one into its
  /// `out`.
  static constexpr Request scan(ConstBufferView in, BufferView out, ReduceOp op = {}) {
    Request request(OpType::scan, InputBlocks::whole(in), OutputBlocks::whole(out));
    request.op = op;
    return request;
  }
  /// As scan, but without a rank's own input. The `out` of group rank 0 is not written to.
  static constexpr Request exscan(ConstBufferView in, BufferView out, ReduceOp op = {}) {
    Request request(OpType::exscan, InputBlocks::whole(in), OutputBlocks::whole(out));
    request.op = op;
    return request;
  }
  /// Rank j's block i receives rank i's block j.
  static constexpr Request all_to_all(InputBlocks in, OutputBlocks out) {
    return Request(OpType::all_to_all, in, out);
  }
  static constexpr Request barrier() { return Request(OpType::barrier, {}, {}); }
  static constexpr Request send(ConstBufferView in, int destination, int tag = 0) {
    return Request(OpType::send, InputBlocks::whole(in), {}, destination, tag);
  }
  static constexpr Request recv(BufferView out, int source, int tag = 0) {
    return Request(OpType::recv, {}, OutputBlocks::whole(out), source, tag);
  }

  /// Waits for a message that recv would take.
  static constexpr Request probe(int source, int tag = 0) {
    return Request(OpType::probe, {}, {}, source, tag);
  }

  constexpr Request() = default;

  /// Where its buffers are: in the memory of a GPU, or where the host reaches them. A barrier is
  /// where it is ordered.
  constexpr MemoryKind memory() const {
    const bool on_gpu = inputs.memory() == MemoryKind::device ||
                        outputs.memory() == MemoryKind::device ||
                        (type == OpType::barrier && domain.kind != OrderingDomain::Kind::host);
    return on_gpu ? MemoryKind::device : MemoryKind::host;
  }

 private:
  constexpr Request(OpType type_, InputBlocks in, OutputBlocks out, int peer_ = -1, int tag_ = 0)
      : type(type_), inputs(in), outputs(out), peer(peer_), tag(tag_) {}
};

/// One send or receive of a batch.
struct P2POp {
  Request request;

  static P2POp send(ConstBufferView in, int destination, int tag = 0) {
    return {Request::send(in, destination, tag)};
  }
  static P2POp recv(BufferView out, int source, int tag = 0) {
    return {Request::recv(out, source, tag)};
  }
};

}  // namespace hymn
