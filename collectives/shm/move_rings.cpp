// gather, scatter and all_to_all in every layout: each block goes straight to where it belongs,
// through rings of their own. Collectives take turns, so that what comes next from a member is
// known, and nothing has to be matched.
//
// A block that fits into a ring is on its way when the call begins: a member of a gather that is
// not the root does not wait for it, nor the root of a scatter for anybody. Long blocks flow, all
// at the same time.
//
// In place (all_to_all): no more is taken from a member than has been sent to it, so that what has
// yet to be sent is never overwritten, and both sides can always go on.

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/reduce/reducer.hpp"
#include "collectives/shm/shm_algorithms.hpp"
#include "collectives/shm/shm_models.hpp"
#include "collectives/shm_base/shm_operation.hpp"
#include "hymn/error.hpp"
#include "p2p/shm/ring_pipes.hpp"

namespace hymn {
namespace {

/// What this member exchanges with another one in the current operation.
struct Exchanged {
  const std::byte* out = nullptr;
  std::size_t out_bytes = 0;
  std::size_t sent = 0;
  std::byte* in = nullptr;
  std::size_t in_bytes = 0;
  std::size_t come = 0;
  bool sends = false;  // there is something to send; announced: it has begun
  bool announced = false;
  bool receives = false;
  bool opened = false;
};

struct Lane {
  RingWriter writer;
  RingReader reader;
  Exchanged now;
};

/// The rings, and the state of the operation that has its turn.
struct Lanes {
  explicit Lanes(const ShmGroup& group)
      : channel(group.channel), areas(group.areas.moves), pipes(*group.channel, areas) {}
  /// In the first turn: most groups never move blocks, and each of hundreds of members has a lane
  /// for each.
  void open() {
    if (!lanes.empty()) return;
    lanes.resize(static_cast<std::size_t>(channel->size()));
    const int me = channel->rank();
    for (int member = 0; member < channel->size(); ++member) {
      if (member == me) continue;
      const SharedRegion& region = channel->region();
      Lane& lane = lanes[static_cast<std::size_t>(member)];
      lane.writer = RingWriter(RingMemory::of(region, areas, me, member));
      lane.reader = RingReader(RingMemory::of(region, areas, member, me));
    }
  }
  Lane& lane(int member) { return lanes[static_cast<std::size_t>(member)]; }

  std::shared_ptr<ShmChannel> channel;
  RingAreas areas;
  RingPipes pipes;
  std::vector<Lane> lanes;
};

class MoveOperation final : public ShmOperation {
 public:
  MoveOperation(Lanes& lanes, const Call& call)
      : ShmOperation(*lanes.channel, call),
        lanes_(lanes),
        request_(*call.request),
        root_(call.peer) {}

 private:
  int me() const { return channel().rank(); }
  int size() const { return channel().size(); }
  /// The member so many places behind this one, round the circle; without a division, which small
  /// calls would feel.
  int member_behind(int places) const {
    const int member = me() + places;
    return member < size() ? member : member - size();
  }

  void begin() override {
    tag_ = upper_bits(label(), ring_tag_bits);
    lanes_.open();
    plan();
    for (int step = 1; step < size(); ++step) push(lanes_.lane(member_behind(step)));
    copy_own();
  }

  bool advance() override {
    bool done = true;
    for (int step = 1; step < size(); ++step) {
      const int from = member_behind(size() - step);
      done = push(lanes_.lane(member_behind(step))) && done;
      done = pull(lanes_.lane(from), from) && done;
    }
    return done;
  }

  void plan() {
    for (Lane& lane : lanes_.lanes) lane.now = {};
    const bool root = me() == root_;
    if (request_.type == OpType::gather) {
      plan_send(root_, request_.inputs.flat());
      if (root) plan_receives();
    } else if (request_.type == OpType::scatter) {
      plan_receive(root_, request_.outputs.flat());
      if (root) plan_sends();
    } else if (request_.type == OpType::all_to_all) {
      plan_sends();
      plan_receives();
    } else {
      throw Error(ErrorKind::internal, fmt::format("no rings move {}", to_string(request_.type)));
    }
  }
  void plan_sends() {
    request_.inputs.for_each(
        size(), [&](int member, const ConstBufferView& block) { plan_send(member, block); });
  }
  void plan_receives() {
    request_.outputs.for_each(
        size(), [&](int member, const BufferView& block) { plan_receive(member, block); });
  }
  void plan_send(int member, const ConstBufferView& block) {
    Exchanged& now = lanes_.lane(member).now;
    now.out = static_cast<const std::byte*>(block.data);
    now.out_bytes = block.bytes();
    now.sends = member != me();
  }
  void plan_receive(int member, const BufferView& block) {
    Exchanged& now = lanes_.lane(member).now;
    now.in = static_cast<std::byte*>(block.data);
    now.in_bytes = block.bytes();
    now.receives = member != me();
  }
  void copy_own() {
    const Exchanged& own = lanes_.lane(me()).now;
    if (own.in_bytes != 0 && own.out != own.in)
      copy_bytes(own.in, own.out, own.out_bytes, own.out_bytes >= stream_from);
  }

  /// True when there is nothing left to send.
  bool push(Lane& lane) {
    Exchanged& now = lane.now;
    if (!now.sends) return true;
    if (!now.announced) {
      lanes_.pipes.reserve();
      const bool is_short = lane.writer.is_short(now.out_bytes);
      if (!is_short) lanes_.pipes.choose(lane.writer, now.out_bytes);
      const RingFlag flag = is_short ? lane.writer.put(tag_, now.out, now.out_bytes)
                                     : lane.writer.announce(tag_, now.out, now.out_bytes);
      if (!flag) return false;
      channel().publish(*flag.word, flag.value);
      lane.writer.prepare_next();
      now.announced = true;
      if (is_short) now.sent = now.out_bytes;
    }
    if (!lanes_.pipes.write(lane.writer, now.out, now.out_bytes, now.sent)) return false;
    now.sends = false;
    return true;
  }

  bool pull(Lane& lane, int from) {
    Exchanged& now = lane.now;
    if (!now.receives) return true;
    const std::size_t limit = may_take(now);
    if (!now.opened) {
      MessageHead head;
      if (!lane.reader.look(head)) return false;
      check(head, from, now);
      if (!head.is_long() && limit < head.bytes) return false;
      const RingFlag flag =
          head.is_long() ? lane.reader.open(head) : lane.reader.take(head, now.in, head.bytes);
      if (flag) channel().publish(*flag.word, flag.value);
      now.opened = true;
      if (!head.is_long()) now.come = head.bytes;
    }
    if (!lanes_.pipes.read(lane.reader, now.in, now.in_bytes, now.come, limit)) return false;
    now.receives = false;
    return true;
  }

  /// Up to where what comes may be written: in place, what lies there must have been sent.
  static std::size_t may_take(const Exchanged& now) {
    return now.in == now.out && now.sends ? now.sent : now.in_bytes;
  }

  void check(const MessageHead& head, int from, const Exchanged& now) const {
    if (head.tag != tag_) [[unlikely]]
      throw_for(from);
    if (head.bytes != now.in_bytes)
      throw UsageError(fmt::format("group rank {} sends {} bytes where {} are expected", from,
                                   head.bytes, now.in_bytes),
                       {.remedy = "give the same counts and dtypes on all ranks"});
  }

  // Longer blocks do not stay in caches.
  static constexpr std::size_t stream_from = std::size_t{4} << 20;

  Lanes& lanes_;
  const Request& request_;
  int root_;
  std::uint64_t tag_ = 0;
};

class MoveRings final : public Algorithm {
 public:
  explicit MoveRings(const ShmGroup& group)
      : Algorithm(shm_models::rings, {OpType::gather, OpType::scatter, OpType::all_to_all}),
        lanes_(group) {}
  Verdict can_run(const Request& request) const override { return can_move_bytes(request); }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<MoveOperation>(lanes_, call);
  }

 private:
  Lanes lanes_;
};

}  // namespace

std::unique_ptr<Algorithm> make_move_rings(const ShmGroup& group) {
  return std::make_unique<MoveRings>(group);
}

}  // namespace hymn
