#include "collectives/hierarchical/hierarchy.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace hymn {
namespace {

constexpr unsigned agreement_phase = 2;  // behind those of collective.cpp

/// Messages of a call that was given up, and the memory that they are sent from and come into.
class AbandonedTransfers final : public AbandonedOperation {
 public:
  explicit AbandonedTransfers(std::shared_ptr<Hierarchy> hierarchy)
      : hierarchy_(std::move(hierarchy)) {}
  void add(std::unique_ptr<Transfers> transfers, const std::string& reason) {
    if (auto abandoned = transfers ? transfers->abandon(reason) : nullptr)
      abandoned_operations_.push_back(std::move(abandoned));
  }
  bool done() override {
    std::erase_if(abandoned_operations_, [](const auto& abandoned) { return abandoned->done(); });
    return abandoned_operations_.empty();
  }

 private:
  std::shared_ptr<Hierarchy> hierarchy_;
  std::vector<std::unique_ptr<AbandonedOperation>> abandoned_operations_;
};

}  // namespace

void HierarchyAreas::add_first(RegionPlan& plan) {
  flags = plan.add(sizeof(Hierarchy::Flags), RegionPlan::Reserve::at_once);
  small = plan.add(2 * Hierarchy::slots * Hierarchy::small_bytes, RegionPlan::Reserve::at_once);
}

void HierarchyAreas::add_large(RegionPlan& plan) {
  large = plan.add(2 * Hierarchy::slots * Hierarchy::large_bytes, RegionPlan::Reserve::on_demand);
}

Hierarchy::Hierarchy(HierarchyParts parts)
    : parts_(std::move(parts)), map_(parts_.host_of, parts_.shape.rank) {
  inputs.resize(static_cast<std::size_t>(std::max(channel().size(), map_.hosts())));
  factors.resize(inputs.size());
}

bool Hierarchy::may_use_slot(std::uint64_t piece) {
  if (piece < least_done_ + slots) return true;
  least_done_ = piece;
  for (int member = 0; member < channel().size(); ++member)
    least_done_ = std::min(least_done_, flags(member).done.load(std::memory_order_acquire));
  return piece < least_done_ + slots;
}

// Hosts may have different amounts of memory, but all must cut alike. So the first member on each
// host tells the others what its host has, and then its neighbours what the least is.
bool Hierarchy::agree_on_slots(std::uint64_t order) {
  if (large_.bytes != 0) return true;
  const std::size_t usable = channel().usable_bytes(parts_.areas.large);
  if (usable == ShmChannel::unknown_bytes) return false;
  if (channel().rank() == 0 && !exchange_sizes(order, usable / (2 * slots))) return false;
  const std::uint64_t agreed = flags(0).agreed.load(std::memory_order_acquire);
  if (agreed == 0) return false;
  const std::size_t bytes = (agreed - 1) / 64 * 64;
  large_ = bytes >= small_bytes ? Slots{.large = true, .bytes = bytes} : Slots{};
  return true;
}

bool Hierarchy::exchange_sizes(std::uint64_t order, std::size_t bytes) {
  const auto mine = static_cast<std::size_t>(map_.my_host());
  if (!agreement_) {
    const MessageTag tag = MessageTag::of_collective(order, agreement_phase, 0);
    sizes_.assign(static_cast<std::size_t>(map_.hosts()), 0);
    sizes_[mine] = bytes;
    agreement_ = port().open();
    for (int host = 0; host < map_.hosts(); ++host) {
      if (host == map_.my_host()) continue;
      agreement_->recv(map_.leader(host, 0), tag, view_of(sizes_[static_cast<std::size_t>(host)]));
      agreement_->send(map_.leader(host, 0), tag, view_of(std::as_const(sizes_[mine])));
    }
  }
  if (!agreement_->test()) return false;
  agreement_.reset();
  channel().publish(flags(0).agreed, *std::min_element(sizes_.begin(), sizes_.end()) + 1);
  return true;
}

void Hierarchy::make_room(std::size_t partial, std::size_t incoming) {
  const auto whole_lines = [](std::size_t bytes) { return (bytes + 63) / 64 * 64; };
  const std::size_t each = whole_lines(partial) + whole_lines(incoming);
  if (each * slots > room_bytes_) {
    room_.reset();
    room_ = std::make_unique_for_overwrite<std::byte[]>(each * slots);
    room_bytes_ = each * slots;
  }
  for (std::size_t i = 0; i < slots; ++i) {
    flights_[i].partial = room_.get() + i * each;
    flights_[i].incoming = flights_[i].partial + whole_lines(partial);
  }
}

std::unique_ptr<AbandonedOperation> Hierarchy::abandon(const std::shared_ptr<Hierarchy>& hierarchy,
                                                       const std::string& reason) {
  auto abandoned = std::make_unique<AbandonedTransfers>(hierarchy);
  abandoned->add(std::move(hierarchy->agreement_), reason);
  for (Flight& flight : hierarchy->flights_) {
    abandoned->add(std::move(flight.gather), reason);
    abandoned->add(std::move(flight.spread), reason);
  }
  if (abandoned->done()) return nullptr;
  return abandoned;
}

Verdict Hierarchy::has_room_for_blocks(int ranks, std::size_t element_bytes) {
  constexpr std::size_t longest = 16;  // of elements and accumulators that are numbers
  const std::size_t most = small_bytes / std::max(longest, element_bytes);
  if (static_cast<std::size_t>(ranks) <= most) return Verdict::yes();
  return Verdict::no(fmt::format("more than {} ranks, each with a block of its own", most));
}

Verdict Hierarchy::can_scan(bool in_rank_order) {
  if (in_rank_order) return Verdict::yes();
  return Verdict::no("the ranks of some host do not follow one another");
}

}  // namespace hymn
