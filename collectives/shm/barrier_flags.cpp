// barrier: everybody counts its barriers where the others can see it.

#include <bit>

#include "collectives/shm/shm_algorithms.hpp"
#include "collectives/shm/shm_operation.hpp"

namespace hymn {
namespace {

/// Up to so many members all look at all others; beyond that there are rounds of looking at one.
constexpr int most_to_look_at = 8;

/// Counters only grow. Those of arrivals and of barriers that are over are member 0's.
struct Flags {
  alignas(128) std::atomic<std::uint64_t> stage;
  alignas(128) std::atomic<std::uint64_t> arrivals;
  alignas(128) std::atomic<std::uint64_t> over;
};

/// One member's state from barrier to barrier.
struct Barriers {
  std::shared_ptr<ShmChannel> channel;
  int area;
  std::uint64_t uses = 0;

  Flags& flags(int member) const { return *channel->at<Flags>(member, area); }
};

/// Members that look at each other. A member's stage is 64 for each barrier it has reached,
/// and one for each round in it.
class SpreadBarrier final : public ShmOperation {
 public:
  explicit SpreadBarrier(Barriers& shared)
      : ShmOperation(*shared.channel),
        shared_(shared),
        rounds_(channel().size() <= most_to_look_at
                    ? 1
                    : std::bit_width(static_cast<unsigned>(channel().size() - 1))) {}

 private:
  void begin() override {
    stage_ = ++shared_.uses * 64;
    publish();
  }
  bool advance() override {
    if (channel().size() <= most_to_look_at) return all_have_come();
    for (; round_ < rounds_; ++round_, publish()) {
      const int size = channel().size();
      if (stage_of((channel().rank() + size - (1 << round_)) % size) < stage_) return false;
      ++stage_;
    }
    return true;
  }
  bool awaits_other_cores() const override {
    return channel().size() <= most_to_look_at &&
           all_beside_have_come(seen_, [this](int member) { return stage_of(member) >= stage_; });
  }
  bool all_have_come() {
    for (; seen_ < channel().size(); ++seen_)
      for (int look = 1; stage_of(seen_) < stage_; ++look)
        if (look >= channel().looks()) return false;
    return true;
  }
  std::uint64_t stage_of(int member) const {
    return shared_.flags(member).stage.load(std::memory_order_acquire);
  }
  void publish() { channel().publish(shared_.flags(channel().rank()).stage, stage_); }

  Barriers& shared_;
  int rounds_;
  std::uint64_t stage_ = 0;
  int round_ = 0;
  int seen_ = 0;
};

/// Many members that share cores: whoever comes last tells all, so that nobody is waited for twice.
class CountedBarrier final : public ShmOperation {
 public:
  explicit CountedBarrier(Barriers& shared) : ShmOperation(*shared.channel), shared_(shared) {}

 private:
  void begin() override {
    use_ = ++shared_.uses;
    Flags& flags = shared_.flags(0);
    const auto size = static_cast<std::uint64_t>(channel().size());
    if (flags.arrivals.fetch_add(1, std::memory_order_acq_rel) + 1 == use_ * size)
      channel().publish(flags.over, use_);
  }
  bool advance() override { return shared_.flags(0).over.load(std::memory_order_acquire) >= use_; }

  Barriers& shared_;
  std::uint64_t use_ = 0;
};

class BarrierFlags final : public Algorithm {
 public:
  explicit BarrierFlags(const ShmGroup& group) : shared_{group.channel, group.areas.barrier} {}

  std::string_view name() const override { return "barrier_flags"; }
  std::string_view path() const override { return "shm"; }
  bool serves(OpType type) const override { return type == OpType::barrier; }
  Verdict can_run(const Request&) const override { return Verdict::yes(); }
  Operation& prepare(OperationStorage& storage, const Call&) override {
    if (shared_.channel->crowded() && shared_.channel->size() > most_to_look_at)
      return storage.emplace<CountedBarrier>(shared_);
    return storage.emplace<SpreadBarrier>(shared_);
  }

 private:
  Barriers shared_;
};

}  // namespace

std::size_t barrier_bytes() { return sizeof(Flags); }

std::unique_ptr<Algorithm> make_barrier_flags(const ShmGroup& group) {
  return std::make_unique<BarrierFlags>(group);
}

}  // namespace hymn
