// all_reduce between two members: each writes the slot that it has just read, whose lines are in
// its cache already.

#include "collectives/shm/shm_reduction.hpp"
#include "collectives/shm/shown_slots.hpp"

namespace hymn {
namespace {

class AllReduceSwapped final : public AllReduceInMemory {
 public:
  AllReduceSwapped(std::shared_ptr<ShownSlots> slots, int members)
      : slots_(std::move(slots)), members_(members) {}

  std::string_view name() const override { return "all_reduce_swapped"; }
  Verdict can_run(const Request& request) const override {
    if (members_ != 2) return Verdict::no("it is made for two members");
    return slots_->can_show(request);
  }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return slots_->prepare(storage, call);
  }

 private:
  std::shared_ptr<ShownSlots> slots_;
  int members_;
};

}  // namespace

std::unique_ptr<Algorithm> make_all_reduce_swapped(std::shared_ptr<ShownSlots> slots, int members) {
  return std::make_unique<AllReduceSwapped>(std::move(slots), members);
}

}  // namespace hymn
