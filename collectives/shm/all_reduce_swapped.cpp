// all_reduce between two members: each writes the slot that it has just read, whose lines are in
// its cache already.

#include "collectives/shm/shown_slots.hpp"

namespace hymn {
namespace {

class AllReduceSwapped final : public ShownAlgorithm {
 public:
  AllReduceSwapped(std::shared_ptr<ShownSlots> slots, int members)
      : ShownAlgorithm(std::move(slots)), members_(members) {}

  std::string_view name() const override { return "all_reduce_swapped"; }
  bool serves(OpType type) const override { return type == OpType::all_reduce; }
  Verdict can_run(const Request& request) const override {
    if (members_ != 2) return Verdict::no("it works only with two members");
    return ShownAlgorithm::can_run(request);
  }

 private:
  int members_;
};

}  // namespace

std::unique_ptr<Algorithm> make_all_reduce_swapped(std::shared_ptr<ShownSlots> slots, int members) {
  return std::make_unique<AllReduceSwapped>(std::move(slots), members);
}

}  // namespace hymn
