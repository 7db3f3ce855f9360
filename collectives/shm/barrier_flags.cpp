// barrier: everybody counts its barriers where the others can see it.

#include <bit>

#include "collectives/shm/shm_algorithms.hpp"
#include "collectives/shm/shm_models.hpp"
#include "collectives/shm_base/shm_operation.hpp"

namespace hymn {
namespace {

/// Up to so many members all look at all others; beyond that there are rounds of looking at one.
constexpr int most_to_look_at = 8;

/// Those of arrivals and of barriers that are over are member 0's, and only grow.
struct BarrierWords {
  alignas(128) std::atomic<std::uint64_t> word;
  alignas(128) std::atomic<std::uint64_t> arrivals;
  alignas(128) std::atomic<std::uint64_t> over;
};

/// One member's state from barrier to barrier.
struct Barriers {
  std::shared_ptr<ShmChannel> channel;
  int area;
  std::uint64_t uses = 0;
  std::uint64_t sum = 0;  ///< of all arrivals up to the latest barrier

  BarrierWords& flags(int member) const { return *channel->at<BarrierWords>(member, area); }
};

/// Members that look at each other. A member's stage is 64 for each barrier it has reached,
/// and one for each round in it; a word is a stage, and behind it a part of the label of the call.
/// Words are compared as differences, which may pass the end of a word.
class SpreadBarrier final : public ShmOperation {
 public:
  SpreadBarrier(Barriers& shared, const Call& call)
      : ShmOperation(*shared.channel, call),
        shared_(shared),
        rounds_(channel().size() <= most_to_look_at
                    ? 1
                    : std::bit_width(static_cast<unsigned>(channel().size() - 1))) {}

 private:
  void begin() override {
    word_ = ++shared_.uses << (stage_bits + label_bits) | upper_bits(label(), label_bits);
    publish();
  }
  bool advance() override {
    if (channel().size() <= most_to_look_at) return all_have_come();
    for (; round_ < rounds_; ++round_, publish()) {
      const int size = channel().size();
      if (!has_come((channel().rank() + size - (1 << round_)) % size)) return false;
      word_ += std::uint64_t{1} << label_bits;
    }
    return true;
  }
  Awaited awaited() const override {
    if (channel().size() > most_to_look_at) return ShmOperation::awaited();
    return channel().awaited(seen_,
                             [this](int member) { return is_at_or_behind(word_of(member)); });
  }
  bool all_have_come() {
    for (; seen_ < channel().size(); ++seen_)
      for (int look = 1; !has_come(seen_); ++look)
        if (look >= channel().spin_count()) return false;
    return true;
  }
  /// Where that member is in a later barrier already it has found that the calls are the same.
  bool has_come(int member) const {
    const std::uint64_t word = word_of(member);
    if (word == word_) [[likely]]
      return true;
    if (!is_at_or_behind(word)) return false;
    const std::uint64_t differences = word ^ word_;
    const bool in_this_barrier = differences >> (label_bits + stage_bits) == 0;
    if (in_this_barrier && differences << (64 - label_bits) != 0) [[unlikely]]
      throw_for(member);
    return true;
  }
  bool is_at_or_behind(std::uint64_t word) const {
    return static_cast<std::int64_t>(word - (word_ >> label_bits << label_bits)) >= 0;
  }
  std::uint64_t word_of(int member) const {
    return shared_.flags(member).word.load(std::memory_order_acquire);
  }
  void publish() { channel().publish(shared_.flags(channel().rank()).word, word_); }

  static constexpr unsigned label_bits = 20;
  static constexpr unsigned stage_bits = 6;

  Barriers& shared_;
  int rounds_;
  std::uint64_t word_ = 0;
  int round_ = 0;
  int seen_ = 0;
};

/// Many members that share cores: whoever comes last tells all, so that nobody is waited for twice.
class CountedBarrier final : public ShmOperation {
 public:
  CountedBarrier(Barriers& shared, const Call& call)
      : ShmOperation(*shared.channel, call), shared_(shared) {}

 private:
  void begin() override {
    use_ = ++shared_.uses;
    BarrierWords& flags = shared_.flags(0);
    // One, and above it a part of the label: where all have added the same, the sum is known.
    const std::uint64_t mine = upper_bits(label(), 64 - count_bits) << count_bits | 1;
    shared_.sum += mine * static_cast<std::uint64_t>(channel().size());
    const std::uint64_t sum = flags.arrivals.fetch_add(mine, std::memory_order_acq_rel) + mine;
    if (sum == shared_.sum) return channel().publish(flags.over, use_);
    // All have come, but somebody to another call.
    if ((sum ^ shared_.sum) << (64 - count_bits) == 0) require_same_calls();
  }
  bool advance() override { return shared_.flags(0).over.load(std::memory_order_acquire) >= use_; }

  static constexpr unsigned count_bits = 40;

  Barriers& shared_;
  std::uint64_t use_ = 0;
};

class BarrierFlags final : public Algorithm {
 public:
  explicit BarrierFlags(const ShmGroup& group)
      : Algorithm(shm_models::flags), shared_{group.channel, group.areas.barrier} {}

  Verdict can_run(const Request&) const override { return Verdict::yes(); }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    if (shared_.channel->oversubscribed() && shared_.channel->size() > most_to_look_at)
      return storage.emplace<CountedBarrier>(shared_, call);
    return storage.emplace<SpreadBarrier>(shared_, call);
  }

 private:
  Barriers shared_;
};

}  // namespace

std::size_t barrier_bytes() { return sizeof(BarrierWords); }

std::unique_ptr<Algorithm> make_barrier_flags(const ShmGroup& group) {
  return std::make_unique<BarrierFlags>(group);
}

}  // namespace hymn
