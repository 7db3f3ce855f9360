#include "p2p/shm/memory_region.hpp"

#include <fmt/format.h>

#include <mutex>

#include "hymn/error.hpp"
#include "p2p/shm/nameless_memory.hpp"
#include "p2p/shm/reservation.hpp"

namespace hymn {
namespace {

/// The same for plans that are the same.
std::uint64_t hash_of(const RegionPlan& plan, int members) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  const auto mix = [&hash](std::uint64_t number) { hash = (hash ^ number) * 0x100000001b3ull; };
  mix(static_cast<std::uint64_t>(members));
  mix(plan.parts_begin());
  mix(plan.at_once_bytes());
  for (std::size_t i = 0; i < plan.areas(); ++i) {
    mix(plan.area(static_cast<int>(i)).offset);
    mix(plan.area(static_cast<int>(i)).bytes);
  }
  return hash;
}

class Maker final : public RegionMaker {
 public:
  Maker(const RegionPlan& plan, int members)
      : memory_(make_nameless_memory(plan.total_bytes(members), "region")),
        plan_hash_(hash_of(plan, members)) {}

  Bytes ticket() const override {
    Packer packer;
    key_of(memory_).pack(packer);
    credentials_.pack(packer);
    packer.number(plan_hash_);
    return packer.packed();
  }
  void pass_descriptors(std::span<const Bytes> addresses) const override {
    for (const Bytes& address : addresses) pass_descriptor(memory_, credentials_, address);
  }

 private:
  Descriptor memory_;
  Credentials credentials_ = Credentials::of_this_process();
  std::uint64_t plan_hash_;
};

class MemoryRegion final : public SharedRegion {
 public:
  MemoryRegion(RegionPlan plan, int members, int me, SharedMapping mapping, Descriptor memory)
      : SharedRegion(std::move(plan), members, me, mapping.base()),
        mapping_(std::move(mapping)),
        memory_(std::move(memory)),
        known_(this->plan().areas()) {
    mapping_.keep_from_children();
    // Everybody does, so that nobody can be too early; on most kernels nothing more needs the
    // descriptor.
    if (can_populate(mapping_))
      memory_ = Descriptor();
    else
      require(reserve_memory(mapping_, memory_, 0, this->plan().parts_begin(), 1, Need::all));
    if (this->plan().at_once_bytes() != 0)
      require(reserve_memory(mapping_, memory_, offset_of(0), this->plan().at_once_bytes(), members,
                             Need::all));
  }

  Reserved reserve(int index) override {
    std::lock_guard lock(mutex_);
    Known& known = known_[static_cast<std::size_t>(index)];
    if (!known.asked) {
      known.asked = true;
      auto [bytes, shortage] = reserve_memory(mapping_, memory_, offset_of(index),
                                              plan().area(index).bytes, members(), Need::some);
      known.reserved = {bytes, std::move(shortage)};
    }
    return known.reserved;
  }

 private:
  struct Known {
    bool asked = false;
    Reserved reserved;
  };
  std::size_t offset_of(int index) const {
    return static_cast<std::size_t>(area(me(), index) - common());
  }
  static void require(const Reservation& reservation) {
    if (!reservation.shortage.empty()) throw ResourceError(reservation.shortage);
  }

  SharedMapping mapping_;
  Descriptor memory_;  ///< kept where the kernel needs it for reservations
  std::mutex mutex_;
  std::vector<Known> known_;
};

Descriptor get_memory(const MemoryKey& key, const Credentials& maker, DescriptorListener& listener,
                      Duration patience) {
  switch (way_between(maker, listener.credentials())) {
    case WayToMemory::proc:
      return open_nameless_memory(key);
    case WayToMemory::descriptor_passing:
      return listener.receive(key, patience);
    case WayToMemory::none:
      break;
  }
  const bool others = maker.network_namespace == listener.credentials().network_namespace;
  throw ResourceError(
      fmt::format("process {}, which made the shared memory, {}", key.pid,
                  others ? "belongs to another user"
                         : "may not be inspected and is in another network namespace"),
      {.remedy = "run the ranks of a host as one user, in one PID or one network namespace"});
}

}  // namespace

std::unique_ptr<RegionMaker> RegionMaker::make(RegionPlan plan, int members) {
  return std::make_unique<Maker>(plan, members);
}

std::unique_ptr<SharedRegion> join_region(std::span<const std::byte> ticket, RegionPlan plan,
                                          int members, int me, DescriptorListener& listener,
                                          Duration patience) {
  Unpacker unpacker(ticket);
  const MemoryKey key = MemoryKey::unpack(unpacker);
  const Credentials maker = Credentials::unpack(unpacker);
  if (unpacker.number() != hash_of(plan, members) || key.bytes != plan.total_bytes(members))
    throw ResourceError(
        fmt::format("the shared memory of process {} is laid out differently from this rank's",
                    key.pid),
        {.remedy = "run the same build of hymn on all ranks"});
  Descriptor memory = get_memory(key, maker, listener, patience);
  check_fixed_size(memory, key);
  SharedMapping mapping(memory, key.bytes);
  return std::make_unique<MemoryRegion>(std::move(plan), members, me, std::move(mapping),
                                        std::move(memory));
}

}  // namespace hymn
