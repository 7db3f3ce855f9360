// all_reduce of few bytes among any number of members: each writes its own slots.

#include "collectives/shm/shm_reduction.hpp"
#include "collectives/shm/shown_slots.hpp"

namespace hymn {
namespace {

class AllReduceOneShot final : public AllReduceInMemory {
 public:
  explicit AllReduceOneShot(std::shared_ptr<ShownSlots> slots) : slots_(std::move(slots)) {}

  std::string_view name() const override { return "all_reduce_one_shot"; }
  Verdict can_run(const Request& request) const override { return slots_->can_show(request); }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return slots_->prepare(storage, call);
  }

 private:
  std::shared_ptr<ShownSlots> slots_;
};

}  // namespace

std::unique_ptr<Algorithm> make_all_reduce_one_shot(std::shared_ptr<ShownSlots> slots) {
  return std::make_unique<AllReduceOneShot>(std::move(slots));
}

}  // namespace hymn
