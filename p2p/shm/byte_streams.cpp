#include "p2p/shm/byte_streams.hpp"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <thread>
#include <utility>
#include <vector>

#include "base/waiter.hpp"
#include "p2p/copy_bytes.hpp"
#include "p2p/shm/memory_region.hpp"
#include "p2p/shm/message_ring.hpp"

namespace hymn {
namespace {

/// All pipes of a member together, and each of them. Where both sides run a smaller one is as fast;
/// where they share a core, each time that it is full costs a turn of whoever else is there.
constexpr std::size_t most_pipes = std::size_t{2} << 20;
constexpr std::size_t most_pipe = std::size_t{2} << 20;
constexpr std::size_t least_pipe = std::size_t{16} << 10;
/// So that the other side soon has something to do.
constexpr std::size_t most_unshown = std::size_t{16} << 10;
constexpr std::size_t most_written = std::size_t{64} << 10;

/// A member's own, which all see.
struct StreamMember {
  alignas(RegionPlan::line_bytes) std::atomic<std::uint32_t> naps;  ///< odd: it sleeps
  alignas(RegionPlan::line_bytes) std::atomic<int> core;            ///< as ShmChannel has it
};

/// Beside each pipe, in the part of who writes to it.
struct StreamPipe {
  RingCounters counters;
  alignas(RegionPlan::line_bytes) std::atomic<std::uint32_t> room_wanted;  ///< by who writes
};

/// Where in a member's part its pipe to each other one lies.
struct StreamLayout {
  explicit StreamLayout(int member_count)
      : members(member_count),
        pipe_bytes(std::clamp(std::bit_floor(most_pipes / others()), least_pipe, most_pipe)) {
    area = plan.add(sizeof(StreamMember) + others() * (sizeof(StreamPipe) + pipe_bytes),
                    RegionPlan::Reserve::at_once);
  }
  std::size_t others() const { return static_cast<std::size_t>(std::max(members - 1, 1)); }
  StreamMember& state(const SharedRegion& region, int member) const {
    return *reinterpret_cast<StreamMember*>(region.area(member, area));
  }
  StreamPipe& pipe_state(const SharedRegion& region, int from, int to) const {
    std::byte* const first = region.area(from, area) + sizeof(StreamMember);
    return reinterpret_cast<StreamPipe*>(first)[to < from ? to : to - 1];
  }
  RingMemory pipe(const SharedRegion& region, int from, int to) const {
    RingMemory memory;
    memory.counters = &pipe_state(region, from, to).counters;
    memory.place = static_cast<std::size_t>(to < from ? to : to - 1);
    memory.near_pipe = region.area(from, area) + sizeof(StreamMember) +
                       others() * sizeof(StreamPipe) + memory.place * pipe_bytes;
    // It has no cells, for nothing is announced: what is asked of their number is that it is some.
    memory.sizes = {.cells_bytes = 64 * ring_cell_bytes,
                    .near_pipe_bytes = pipe_bytes,
                    .far_pipe_bytes = pipe_bytes};
    return memory;
  }

  int members;
  std::size_t pipe_bytes;
  RegionPlan plan{};
  int area = 0;
};

/// All that two threads of different processes order by what the other must not miss is
/// sequentially consistent: what is written and who sleeps, what is read and who wants room.
class PipePair final : public ByteStream {
 public:
  PipePair(const StreamLayout& layout, const SharedRegion& region, int me, int other)
      : out_(layout.pipe_state(region, me, other)),
        in_(layout.pipe_state(region, other, me)),
        other_(layout.state(region, other)),
        capacity_(layout.pipe_bytes),
        writer_(layout.pipe(region, me, other)),
        reader_(layout.pipe(region, other, me)) {
    (void)reader_.open({.pipe_bytes = capacity_});
  }

  std::size_t capacity() const override { return capacity_; }

  std::size_t write(std::span<const iovec> pieces) override {
    std::size_t done = 0;
    std::size_t shown = 0;
    RingFlag flag;
    const auto show = [&] {
      if (flag) flag.word->store(flag.value, std::memory_order_seq_cst);
      shown = done;
    };
    for (const iovec& piece : pieces) {
      const auto* from = static_cast<const std::byte*>(piece.iov_base);
      for (std::size_t left = piece.iov_len; left > 0;) {
        const std::span<std::byte> room = writer_.room();
        const std::size_t now = std::min({left, room.size(), most_unshown, most_written - done});
        if (now == 0) {
          show();
          return done;
        }
        copy_bytes(room.data(), from, now, false);
        flag = writer_.wrote(now);
        from += now;
        left -= now;
        done += now;
        if (done - shown >= most_unshown) show();
      }
    }
    show();
    return done;
  }

  bool want_room() override {
    const std::uint64_t read = out_.counters.pipe_read.load(std::memory_order_acquire);
    if (!writer_.room().empty()) return true;
    full_at_.store(read, std::memory_order_relaxed);
    wants_room_.store(true, std::memory_order_release);
    out_.room_wanted.store(1, std::memory_order_seq_cst);
    return has_wanted_room();
  }
  void want_no_room() override {
    if (!wants_room_.load(std::memory_order_relaxed)) return;
    wants_room_.store(false, std::memory_order_relaxed);
    out_.room_wanted.store(0, std::memory_order_relaxed);
  }
  bool has_wanted_room() const override {
    return wants_room_.load(std::memory_order_acquire) &&
           out_.counters.pipe_read.load(std::memory_order_seq_cst) !=
               full_at_.load(std::memory_order_relaxed);
  }

  std::span<const std::byte> come() const override { return reader_.come(capacity_); }
  void pass(std::size_t bytes) override {
    const RingFlag flag = reader_.read(bytes);
    passed_ = flag.value;
    flag.word->store(flag.value, std::memory_order_seq_cst);
  }

  bool must_wake() override {
    const std::uint32_t nap = other_.naps.load(std::memory_order_seq_cst);
    if (nap % 2 == 0 || nap == woken_from_.load(std::memory_order_relaxed)) return false;
    woken_from_.store(nap, std::memory_order_relaxed);
    return true;
  }
  bool must_wake_for_room() override {
    return in_.room_wanted.load(std::memory_order_seq_cst) != 0 && must_wake();
  }

  void close() override { is_closed_.store(true, std::memory_order_relaxed); }

  /// For the thread that reads.
  bool has_news() const {
    if (is_closed_.load(std::memory_order_relaxed)) return false;
    return in_.counters.pipe_written.load(std::memory_order_seq_cst) > passed_ || has_wanted_room();
  }
  /// It wants no core: it sleeps, and nothing has woken it from here.
  bool is_at_rest() const {
    if (is_closed_.load(std::memory_order_relaxed)) return true;
    const std::uint32_t nap = other_.naps.load(std::memory_order_relaxed);
    return nap % 2 != 0 && nap != woken_from_.load(std::memory_order_relaxed);
  }
  int core() const { return other_.core.load(std::memory_order_relaxed); }

 private:
  StreamPipe& out_;
  StreamPipe& in_;
  StreamMember& other_;
  std::size_t capacity_;
  RingWriter writer_;
  RingReader reader_;
  std::uint64_t passed_ = 0;
  std::atomic<bool> is_closed_{false};
  std::atomic<std::uint32_t> woken_from_{0};
  std::atomic<bool> wants_room_{false};
  std::atomic<std::uint64_t> full_at_{0};  ///< how much had been read when there was no room
};

class MemberStreams final : public ByteStreams {
 public:
  MemberStreams(const StreamLayout& layout, std::unique_ptr<SharedRegion> region)
      : region_(std::move(region)),
        own_(layout.state(*region_, region_->me())),
        oversubscription_(static_cast<unsigned>(layout.members) >
                          std::max(std::thread::hardware_concurrency(), 1u)) {
    for (int member = 0; member < layout.members; ++member)
      if (member == region_->me())
        pairs_.emplace_back();
      else
        pairs_.push_back(std::make_unique<PipePair>(layout, *region_, region_->me(), member));
  }

  ByteStream& with(int member) override { return *pairs_[static_cast<std::size_t>(member)]; }

  bool await(const std::atomic<bool>& stop, Duration patience) override {
    constexpr int looks_between_times = 64;
    if (has_news(stop)) return true;
    note_core();
    Waiter waiter(oversubscription_, true);
    // Where a pause gives the core away it may take a whole turn of somebody else's.
    TimePoint end = shares_core() ? std::chrono::steady_clock::now() + patience : TimePoint{};
    for (int look = 1; !waiter.is_sleepy(); ++look) {
      waiter.pause([this] { return where_they_are(); });
      if (has_news(stop)) return true;
      if (look % looks_between_times != 0 && !shares_core()) continue;
      const TimePoint now = std::chrono::steady_clock::now();
      if (end == TimePoint{}) end = now + patience;
      if (now >= end) break;
    }
    return false;
  }
  bool begin_sleep() override {
    own_.naps.store(++naps_, std::memory_order_seq_cst);
    static const std::atomic<bool> never{false};
    return !has_news(never);
  }
  void end_sleep() override { own_.naps.store(++naps_, std::memory_order_seq_cst); }

 private:
  bool has_news(const std::atomic<bool>& stop) const {
    if (stop.load(std::memory_order_seq_cst)) return true;
    return std::any_of(pairs_.begin(), pairs_.end(),
                       [](const auto& pair) { return pair && pair->has_news(); });
  }
  bool shares_core() const {
    return oversubscription_.is_counted() || oversubscription_.is_noticed();
  }
  void note_core() {
    const int core = ::sched_getcpu() + 1;
    if (core != own_.core.load(std::memory_order_relaxed))
      own_.core.store(core, std::memory_order_relaxed);
  }
  /// Those who may have something for this process; who is at rest needs no core.
  Awaited where_they_are() {
    note_core();
    const int own = own_.core.load(std::memory_order_relaxed);
    auto found = Awaited::elsewhere;
    for (const auto& pair : pairs_) {
      if (!pair || pair->is_at_rest()) continue;
      if (pair->core() == own) return Awaited::here;
      if (pair->core() == 0) found = Awaited::somewhere;
    }
    return found;
  }

  std::unique_ptr<SharedRegion> region_;
  StreamMember& own_;
  Oversubscription oversubscription_;
  std::uint32_t naps_ = 0;
  std::vector<std::unique_ptr<PipePair>> pairs_;  ///< by member; null: this one
};

class RegionStreamMeeting final : public ByteStreamMeeting {
 public:
  Bytes address() const override { return listener_->address(); }

  Bytes make_memory(std::span<const Bytes> addresses) override {
    const int members = static_cast<int>(addresses.size());
    maker_ = RegionMaker::make(StreamLayout(members).plan, members);
    maker_->pass_descriptors(addresses);
    return maker_->ticket();
  }
  std::unique_ptr<ByteStreams> join(std::span<const std::byte> ticket, int members,
                                    int me) override {
    const StreamLayout layout(members);
    return std::make_unique<MemberStreams>(
        layout, join_region(ticket, layout.plan, members, me, *listener_));
  }

 private:
  std::unique_ptr<DescriptorListener> listener_ = DescriptorListener::open();
  std::unique_ptr<RegionMaker> maker_;
};

}  // namespace

std::unique_ptr<ByteStreamMeeting> meet_for_byte_streams() {
  return std::make_unique<RegionStreamMeeting>();
}

}  // namespace hymn
