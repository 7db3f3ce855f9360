// What stays behind of several operations that were given up as one.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "p2p/operation.hpp"

namespace hymn {

class JoinedResidue final : public AbandonedOperation {
 public:
  /// Into `all`, which is null until there is something. What is done at once counts, too: that
  /// something could not be taken back is told by it.
  static void add(std::unique_ptr<JoinedResidue>& all,
                  std::unique_ptr<AbandonedOperation> abandoned) {
    if (!abandoned) return;
    if (!all) all = std::make_unique<JoinedResidue>();
    all->abandoned_operations_.push_back(std::move(abandoned));
  }
  bool done() override {
    std::erase_if(abandoned_operations_, [](const auto& abandoned) { return abandoned->done(); });
    return abandoned_operations_.empty();
  }

 private:
  std::vector<std::unique_ptr<AbandonedOperation>> abandoned_operations_;
};

}  // namespace hymn
