#include "collectives/dispatch/coalesced_operation.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "collectives/call_label.hpp"
#include "collectives/coalesced_calls.hpp"
#include "collectives/owned_request.hpp"
#include "hymn/error.hpp"

namespace hymn {

/// One bundle, or one of the calls.
struct CoalescedOperation::Part {
  std::unique_ptr<Bundle> bundle;
  std::optional<OwnedRequest> request;
  Call call;
  Algorithm* algorithm = nullptr;
  OperationStorage storage;
  std::atomic<bool> is_done = false;  // others look at it while it is stepped

  Operation& operation() const { return *storage.get(); }
};

namespace {

/// Memory that is still read and written when the operation has been given up.
class AbandonedBundles final : public AbandonedOperation {
 public:
  void keep(std::unique_ptr<AbandonedOperation> operation, std::unique_ptr<Bundle> bundle) {
    kept_.emplace_back(std::move(bundle), std::move(operation));
  }
  bool is_empty() const { return kept_.empty(); }
  bool done() override {
    std::erase_if(kept_, [](const auto& one) { return one.second->done(); });
    return kept_.empty();
  }

 private:
  std::vector<std::pair<std::unique_ptr<Bundle>, std::unique_ptr<AbandonedOperation>>> kept_;
};

/// Cuts the calls of a plan, in their order.
class Cutter {
 public:
  using Parts = std::vector<std::vector<const Request*>>;

  explicit Cutter(const CoalescedPlan& plan) : plan_(plan) {}

  /// What goes together.
  Parts cut() {
    for (const Request* const request : plan_.requests) {
      const std::size_t bytes = bundled_bytes(*request, plan_.shape.size);
      if (plan_.limits.together == 0 || bytes > plan_.limits.each) {
        parts_.push_back({request});
        continue;
      }
      if (bytes > plan_.limits.together - std::min(bytes_, plan_.limits.together)) close();
      bundled_.push_back(request);
      bytes_ += bytes;
    }
    close();
    return std::move(parts_);
  }

 private:
  void close() {
    if (!bundled_.empty()) parts_.push_back(std::exchange(bundled_, {}));
    bytes_ = 0;
  }

  const CoalescedPlan& plan_;
  Parts parts_;
  std::vector<const Request*> bundled_;
  std::size_t bytes_ = 0;
};

}  // namespace

CoalescedOperation::CoalescedOperation(Selector& selector, const CoalescedPlan& plan,
                                       const Call& call) {
  const std::uint64_t label = whole_label(plan.requests, call.peer);
  const auto add = [&](std::span<const Request* const> requests) {
    Part& part = *parts_.emplace_back(std::make_unique<Part>());
    part.call = call;
    part.call.coalesced = 0;
    part.call.order = call.order + parts_.size() - 1;
    part.call.whole_label = mix_in(label, parts_.size());
    part.call.coalesced_in = plan.whole;
    part.call.request = &part_request(part, requests, plan.shape, call.peer);
    part.algorithm = &selector.pick(*part.call.request);
  };
  for (const auto& requests : Cutter(plan).cut()) {
    try {
      add(requests);
    } catch (const UnsupportedError&) {
      // What is allowed may carry small calls only: then one by one.
      if (requests.size() == 1) throw;
      parts_.pop_back();
      for (std::size_t i = 0; i < requests.size(); ++i) add(std::span(requests).subspan(i, 1));
    }
  }
  for (std::size_t i = parts_.size(); i-- > 0;) {
    Part& part = *parts_[i];
    const bool goes_on = i + 1 < parts_.size() && parts_[i + 1]->algorithm == part.algorithm;
    if (goes_on) part.call.together = parts_[i + 1]->call.together + 1;
  }
  for (const auto& part : parts_) part->algorithm->prepare(part->storage, part->call);
}

CoalescedOperation::~CoalescedOperation() = default;

const Request& CoalescedOperation::part_request(Part& part,
                                                std::span<const Request* const> requests,
                                                GroupShape shape, int root) {
  if (requests.size() == 1) return part.request.emplace(*requests.front()).get();
  part.bundle = std::make_unique<Bundle>(shape, shape.rank == root);
  for (const Request* const request : requests) part.bundle->add(*request);
  return part.bundle->close();
}

Algorithm& CoalescedOperation::first_algorithm() const { return *parts_.front()->algorithm; }

void CoalescedOperation::count_uses() const {
  for (std::size_t i = 1; i < parts_.size(); ++i)
    parts_[i]->algorithm->count_use(parts_[i]->call.request->type);
}

template <class Ask>
bool CoalescedOperation::all_that_remain(Ask ask) const {
  return std::ranges::all_of(
      parts_, [&ask](const auto& part) { return part->is_done || ask(part->operation()); });
}

// All are asked, so that all go on.
bool CoalescedOperation::is_ready() {
  bool all = true;
  for (const auto& part : parts_) all = part->operation().is_ready() && all;
  return all;
}

void CoalescedOperation::start() {
  for (const auto& part : parts_) {
    if (part->bundle) part->bundle->pack();
    // Counted first: one that fails here may have shown peers something.
    ++started_;
    part->operation().start();
  }
}

bool CoalescedOperation::step_all(long nanoseconds) {
  const bool is_last = completed_.load(std::memory_order_relaxed) + 1 == parts_.size();
  bool all = true;
  for (const auto& part : parts_) {
    if (part->is_done) continue;
    Operation& operation = part->operation();
    if (is_last && nanoseconds > 0 ? operation.park(nanoseconds) : operation.step()) {
      if (part->bundle) part->bundle->unpack();
      part->is_done = true;
      completed_.fetch_add(1, std::memory_order_relaxed);
    } else {
      all = false;
    }
  }
  return all;
}

// Only the last one parks: whoever slept in one would not move the others.
bool CoalescedOperation::can_park() const {
  return completed_.load(std::memory_order_relaxed) + 1 == parts_.size() &&
         all_that_remain([](const Operation& operation) { return operation.can_park(); });
}

Awaited CoalescedOperation::awaited() const {
  auto found = Awaited::elsewhere;
  for (const auto& part : parts_) {
    if (part->is_done) continue;
    const Awaited one = part->operation().awaited();
    if (one == Awaited::here) return one;
    if (one == Awaited::somewhere) found = one;
  }
  return found;
}

bool CoalescedOperation::peers_need_steps() const {
  return std::ranges::any_of(parts_,
                             [](const auto& part) { return part->operation().peers_need_steps(); });
}

bool CoalescedOperation::is_enqueued() const {
  return all_that_remain([](const Operation& operation) { return operation.is_enqueued(); });
}

bool CoalescedOperation::can_let_wait() const {
  return std::ranges::all_of(parts_,
                             [](const auto& part) { return part->operation().can_let_wait(); });
}

void CoalescedOperation::let_wait(void* stream) {
  for (const auto& part : parts_)
    if (!part->is_done) part->operation().let_wait(stream);
}

// Of those that have never been started all may have something under way for it.
std::unique_ptr<AbandonedOperation> CoalescedOperation::abandon(
    const std::string& reason) noexcept {
  auto abandoned = std::make_unique<AbandonedBundles>();
  const std::size_t end = started_ == 0 ? parts_.size() : started_;
  for (std::size_t i = 0; i < end; ++i) {
    Part& part = *parts_[i];
    if (part.is_done.exchange(true)) continue;
    if (auto left = part.operation().abandon(reason))
      abandoned->keep(std::move(left), std::move(part.bundle));
  }
  if (abandoned->is_empty()) return nullptr;
  return abandoned;
}

}  // namespace hymn
