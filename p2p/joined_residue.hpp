// What stays behind of several operations that were given up as one.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "p2p/operation.hpp"

namespace hymn {

class JoinedResidue final : public AbandonedOperation {
 public:
  void add(std::unique_ptr<AbandonedOperation> abandoned) {
    if (abandoned) abandoned_operations_.push_back(std::move(abandoned));
  }
  bool done() override {
    std::erase_if(abandoned_operations_, [](const auto& abandoned) { return abandoned->done(); });
    return abandoned_operations_.empty();
  }

 private:
  std::vector<std::unique_ptr<AbandonedOperation>> abandoned_operations_;
};

}  // namespace hymn
