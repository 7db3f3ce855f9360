// What is recorded of one call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "collectives/layout.hpp"
#include "hymn/export.hpp"
#include "hymn/request.hpp"

namespace hymn {

enum class CallState : std::uint8_t { scheduled, started, completed, failed };
constexpr bool is_ended(CallState state) {
  return state == CallState::completed || state == CallState::failed;
}

/// The buffers of one side of a call, as far as they are kept: the number of buffers, their
/// elements, and the shape of the first one where it has two or three dimensions.
struct CallSide {
  std::uint64_t count = 0;  ///< elements of all buffers together
  /// All dimensions but the last, which follows from the count; or an order.
  std::uint32_t shape[2]{};
  std::uint16_t buffers = 0;  ///< most_buffers stands for more, too
  DataType dtype = DataType::uint8;
  Layout layout = Layout::none;
  /// 2 or 3: `shape` is set; has_order: it is in what order they lie; else the buffer is flat.
  std::uint8_t dimensions = 0;
  bool even = true;  ///< all buffers of a list have the same count
  static constexpr std::uint16_t most_buffers = 0xffff;
  static constexpr std::uint8_t has_order = 1;
  bool counts_all() const { return buffers != most_buffers; }
  /// Of the one buffer, as order_of().
  std::uint64_t order() const {
    return dimensions == has_order ? shape[0] | std::uint64_t{shape[1]} << 32 : 0;
  }
  void set_order(std::uint64_t order) {
    dimensions = has_order;
    shape[0] = static_cast<std::uint32_t>(order);
    shape[1] = static_cast<std::uint32_t>(order >> 32);
  }
  friend bool operator==(const CallSide&, const CallSide&) = default;
};

/// The sizes of the blocks of a call in group ranks' order, for a side that has_own_sizes().
struct BlockCounts {
  std::vector<std::uint64_t> input{};
  std::vector<std::uint64_t> output{};
  friend bool operator==(const BlockCounts&, const BlockCounts&) = default;
};

/// The dimensions of the buffers of a call of which a side has_own_shapes().
struct CallShapes {
  using Shape = std::vector<std::uint64_t>;
  std::vector<Shape> input{};
  std::vector<Shape> output{};
  friend bool operator==(const CallShapes&, const CallShapes&) = default;
};

/// Blocks whose sizes do not follow from their number and the count of elements.
constexpr bool has_own_sizes(const CallSide& side) {
  return side.layout == Layout::counted || (side.layout == Layout::list && !side.even);
}

/// The shape of the one buffer of a side, or of its first.
template <class View>
HYMN_INLINE void set_shape(CallSide& side, const View& first) {
  const auto shape = first.shape;
  if (side.layout != Layout::list) {
    if (const std::uint64_t order = order_of(first); order != 0) return side.set_order(order);
  }
  if (shape.size() > 3) return;
  constexpr std::int64_t most = std::numeric_limits<std::uint32_t>::max();
  const auto is_kept = [](std::int64_t size) { return size >= 1 && size <= most; };
  if (!is_kept(shape[0]) || (shape.size() == 3 && !is_kept(shape[1]))) return;
  side.shape[0] = static_cast<std::uint32_t>(shape[0]);
  if (shape.size() == 3) side.shape[1] = static_cast<std::uint32_t>(shape[1]);
  side.dimensions = static_cast<std::uint8_t>(shape.size());
}

template <class View>
CallSide side_of_list(const Blocks<View>& blocks) {
  const auto views = blocks.views();
  CallSide side{.dtype = blocks.dtype(), .layout = Layout::list};
  side.buffers =
      static_cast<std::uint16_t>(std::min<std::size_t>(views.size(), CallSide::most_buffers));
  for (const View& view : views) {
    side.count += view.count;
    side.even = side.even && view.count == views.front().count;
  }
  if (!views.empty() && views.front().shape.size() >= 2) set_shape(side, views.front());
  return side;
}

/// What a record keeps of the blocks of a request. Inside of its caller, as all that makes a record
/// of a call: then nothing of that is put into memory but the record itself.
template <class View>
HYMN_INLINE CallSide side_of(const Blocks<View>& blocks) {
  if (blocks.layout() == Layout::none) return {};
  if (blocks.layout() == Layout::list) return side_of_list(blocks);
  const View& view = blocks.flat();
  CallSide side{
      .count = view.count, .buffers = 1, .dtype = blocks.dtype(), .layout = blocks.layout()};
  if (view.shape.size() >= 2) [[unlikely]]
    set_shape(side, view);
  return side;
}

/// Whether what side_of() keeps does not tell the shape of every buffer.
template <class View>
bool has_own_shapes(const Blocks<View>& blocks) {
  const auto views = blocks.views();
  if (views.empty()) return false;
  const auto& first = views.front().shape;
  if (blocks.layout() != Layout::list)
    return first.size() > 3 || (first.size() > 1 && order_of(views.front()) != 0);
  for (const View& view : views) {
    if (view.shape.size() > 3) return true;
    if ((view.shape.size() > 1 || first.size() > 1) && !std::ranges::equal(view.shape, first))
      return true;
  }
  return false;
}

/// One call as it was made: who, what, its place in every count, and when. Times are stamps
/// (stamp.hpp); 0: not yet, or not recorded.
struct CallRecord {
  static constexpr std::int64_t no_timeout = std::numeric_limits<std::int64_t>::max();

  std::uint64_t record_id = 0;  ///< counts the records of this process from 0
  std::uint64_t group_uid = 0;
  /// Counts all operations of the group from 1; a collective and a send that two threads start at
  /// the same time may get the same number.
  std::uint64_t op_id = 0;
  std::uint64_t sequence = 0;  ///< counts collectives, or sends and receives, from 1
  OpType type = OpType::barrier;
  ReduceKind kind = ReduceKind::sum;
  CallState state = CallState::scheduled;
  bool on_gpu = false;        ///< its buffers are in the memory of a GPU, or a stream orders it
  bool coalesced = false;     ///< several calls that were made as one: its buffers are theirs
  bool given_blocks = false;  ///< of these some are cut into blocks of given sizes
  bool own_bundles = false;   ///< they travel in bundles whose sizes the call has given
  bool own_shapes = false;    ///< the shapes of its buffers are kept, as far as there is room
  bool shadowed = false;      ///< made beside the others by a rank that has run out of input
  bool retired = false;       ///< it has ended, and nothing of it is in flight any more
  bool waited_for = true;     ///< a thread waits in it, or did to its end; false: it was started
  bool undriven = false;      ///< it is in flight, and nothing has moved it on for a while
  std::int32_t peer = -1;     ///< global rank: the root, or the other side of a send or receive
  std::uint16_t method = 0;  ///< which algorithm of which path, by the recorder's table; 0: unknown
  CallSide input{};
  CallSide output{};
  std::int64_t timeout_ns = no_timeout;
  std::uint64_t created = 0;
  std::uint64_t started = 0;
  std::uint64_t completed = 0;
  std::uint64_t waited_since =
      0;                   ///< until it has ended: when a thread began to wait; 0: as it was made
  std::uint64_t site = 0;  ///< where the call returns to in the user's code; 0: unknown
  friend bool operator==(const CallRecord&, const CallRecord&) = default;
};

/// The tag of a message is kept where the side that it has not would have its shape.
constexpr void set_tag(CallRecord& call, std::uint32_t tag) {
  if (call.type == OpType::send)
    call.output.shape[0] = tag;
  else
    call.input.shape[0] = tag;
}
constexpr std::uint32_t tag_of(const CallRecord& call) {
  return has_tag(call.type) ? (call.type == OpType::send ? call.output : call.input).shape[0] : 0;
}

}  // namespace hymn
