// all_reduce of few bytes among any number of members: each writes its own slots.

#include "collectives/shm/shown_slots.hpp"

namespace hymn {
namespace {

constexpr std::size_t capacity = 4096;

class AllReduceOneShot final : public Algorithm {
 public:
  explicit AllReduceOneShot(const ShmGroup& group)
      : slots_(group, group.areas.one_shot, capacity, false) {}

  std::string_view name() const override { return "all_reduce_one_shot"; }
  std::string_view path() const override { return "shm"; }
  bool serves(OpType type) const override { return type == OpType::all_reduce; }
  Verdict can_run(const Request& request) const override { return slots_.can_show(request); }
  /// In rank order, of all inputs at once.
  Reproducibility promises(const Request&) const override { return Reproducibility::size; }
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
