// all_gather, reduce_scatter and all_to_all of few bytes: everybody shows all that it has, and
// takes its own part from each, as in the all_reduces whose slots these are.

#include "collectives/shm/shown_slots.hpp"

namespace hymn {
namespace {

class ExchangeShown final : public Algorithm {
 public:
  explicit ExchangeShown(std::shared_ptr<ShownSlots> slots) : slots_(std::move(slots)) {}

  std::string_view name() const override { return "exchange_shown"; }
  std::string_view path() const override { return "shm"; }
  bool serves(OpType type) const override {
    return type == OpType::all_gather || type == OpType::reduce_scatter ||
           type == OpType::all_to_all;
  }
  Verdict can_run(const Request& request) const override { return slots_->can_show(request); }
  /// All inputs are folded at once, in rank order.
  Reproducibility promises(const Request&) const override { return Reproducibility::size; }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return slots_->prepare(storage, call);
  }

 private:
  std::shared_ptr<ShownSlots> slots_;
};

}  // namespace

std::unique_ptr<Algorithm> make_exchange_shown(std::shared_ptr<ShownSlots> slots) {
  return std::make_unique<ExchangeShown>(std::move(slots));
}

}  // namespace hymn
