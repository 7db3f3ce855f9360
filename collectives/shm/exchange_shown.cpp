// all_gather, reduce_scatter and all_to_all of few bytes: everybody shows all that it has, and
// takes its own part from each, as in the all_reduces whose slots these are.

#include "collectives/shm/shown_slots.hpp"

namespace hymn {
namespace {

class ExchangeShown final : public ShownAlgorithm {
 public:
  using ShownAlgorithm::ShownAlgorithm;
  std::string_view name() const override { return "exchange_shown"; }
  bool serves(OpType type) const override {
    return type == OpType::all_gather || type == OpType::reduce_scatter ||
           type == OpType::all_to_all;
  }
};

}  // namespace

std::unique_ptr<Algorithm> make_exchange_shown(std::shared_ptr<ShownSlots> slots) {
  return std::make_unique<ExchangeShown>(std::move(slots));
}

}  // namespace hymn
