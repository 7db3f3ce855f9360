// Collectives across hosts as a mechanism: made of what those before it gave a group, shared memory
// on each host and messages between hosts.
#pragma once

#include "runtime/mechanisms/mechanism.hpp"

namespace hymn {

/// Comes after shared memory, and after whatever carries messages.
class HierarchicalMechanism final : public Mechanism {
 public:
  void open(NewGroup& group, std::span<const Word> offers, std::span<const Word> answers) override;
};

}  // namespace hymn
