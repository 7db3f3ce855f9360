// Collectives across hosts as a mechanism: made of what those before it gave a group, shared memory
// on each host and messages between hosts.
#pragma once

#include "hymn/exchange.hpp"
#include "runtime/mechanisms/mechanism.hpp"

namespace hymn {

/// Comes after shared memory, and after whatever carries messages; where nothing does, they travel
/// through the exchange.
class HierarchicalMechanism final : public Mechanism {
 public:
  explicit HierarchicalMechanism(std::shared_ptr<Exchange> exchange)
      : exchange_(std::move(exchange)) {}
  void open(NewGroup& group, std::span<const Bytes> offers,
            std::span<const Bytes> answers) override;

 private:
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace hymn
