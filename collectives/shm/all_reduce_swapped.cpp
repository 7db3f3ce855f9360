// all_reduce between two members, from a few hundred bytes on: each writes the slot that it has
// just read, whose lines are in its cache already.

#include "collectives/shm/shm_reduction.hpp"
#include "collectives/shm/shown_slots.hpp"

namespace hymn {
namespace {

constexpr std::size_t capacity = 16384;

class AllReduceSwapped final : public AllReduceInMemory {
 public:
  explicit AllReduceSwapped(const ShmGroup& group)
      : slots_(group, group.areas.swapped, capacity, true), members_(group.channel->size()) {}

  std::string_view name() const override { return "all_reduce_swapped"; }
  Verdict can_run(const Request& request) const override {
    if (members_ != 2) return Verdict::no("it is made for two members");
    return slots_.can_show(request);
  }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return slots_.prepare(storage, call);
  }

 private:
  ShownSlots slots_;
  int members_;
};

}  // namespace

std::size_t swapped_bytes(int members) {
  return members == 2 ? ShownSlots::area_bytes(capacity, true) : 0;
}

std::unique_ptr<Algorithm> make_all_reduce_swapped(const ShmGroup& group) {
  return std::make_unique<AllReduceSwapped>(group);
}

}  // namespace hymn
