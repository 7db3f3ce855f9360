// all_reduce of few bytes among any number of members: each writes its own slots.

#include "collectives/shm/shown_slots.hpp"

namespace hymn {
namespace {

class AllReduceOneShot final : public ShownAlgorithm {
 public:
  using ShownAlgorithm::ShownAlgorithm;
  std::string_view name() const override { return "all_reduce_one_shot"; }
  bool serves(OpType type) const override { return type == OpType::all_reduce; }
};

}  // namespace

std::unique_ptr<Algorithm> make_all_reduce_one_shot(std::shared_ptr<ShownSlots> slots) {
  return std::make_unique<AllReduceOneShot>(std::move(slots));
}

}  // namespace hymn
