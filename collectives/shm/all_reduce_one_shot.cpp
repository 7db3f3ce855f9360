// all_reduce of few bytes among any number of members: each writes its own slots.

#include "collectives/shm/shm_reduction.hpp"
#include "collectives/shm/shown_slots.hpp"

namespace hymn {
namespace {

constexpr std::size_t capacity = 4096;

class AllReduceOneShot final : public AllReduceInMemory {
 public:
  explicit AllReduceOneShot(const ShmGroup& group)
      : slots_(group, group.areas.one_shot, capacity, false) {}

  std::string_view name() const override { return "all_reduce_one_shot"; }
  Verdict can_run(const Request& request) const override { return slots_.can_show(request); }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return slots_.prepare(storage, call);
  }

 private:
  ShownSlots slots_;
};

}  // namespace

std::size_t one_shot_bytes(int members) {
  return members > 1 ? ShownSlots::area_bytes(capacity, false) : 0;
}

std::unique_ptr<Algorithm> make_all_reduce_one_shot(const ShmGroup& group) {
  return std::make_unique<AllReduceOneShot>(group);
}

}  // namespace hymn
