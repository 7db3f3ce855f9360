// Coalesced collectives in flight: small ones in bundles, the others beside them.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "collectives/bundle.hpp"
#include "collectives/dispatch/selector.hpp"

namespace hymn {

/// How several calls are carried out as one.
struct CoalescedPlan {
  std::span<const Request* const> requests{};  ///< as require_one_whole() wants them
  GroupShape shape{};
  BundleLimits limits{};
  const void* whole = nullptr;  ///< names all of them together
};

/// What carries the calls of one plan, part by part.
class CoalescedOperation final : public Operation {
 public:
  /// `call` is the whole's; its order is that of the first part. Throws UnsupportedError where
  /// nobody carries one of them. The requests need not live any more.
  CoalescedOperation(Selector& selector, const CoalescedPlan& plan, const Call& call);
  ~CoalescedOperation() override;

  std::size_t parts() const { return parts_.size(); }
  Algorithm& first_algorithm() const;
  /// Once it is sure to start: that each but the first has been given one more.
  void count_uses() const;

  bool is_ready() override;
  void start() override;
  bool step() override { return step_all(0); }
  bool park(long nanoseconds) override { return step_all(nanoseconds); }
  bool can_park() const override;
  Awaited awaited() const override;
  bool peers_need_steps() const override;
  bool is_enqueued() const override;
  bool can_let_wait() const override;
  void let_wait(void* stream) override;
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override;

 private:
  struct Part;
  static const Request& part_request(Part& part, std::span<const Request* const> requests,
                                     GroupShape shape, int root);
  bool step_all(long nanoseconds);
  template <class Ask>
  bool all_that_remain(Ask ask) const;

  std::vector<std::unique_ptr<Part>> parts_;
  std::size_t started_ = 0;
  std::atomic<std::size_t> completed_{0};
};

}  // namespace hymn
