// hymn's operations as torch's Work.
#pragma once

#include <memory>

#include "operation.hpp"
#include "torch_version.hpp"
#include "world.hpp"

namespace hymn_torch {

class Work final : public c10d::Work {
 public:
  /// `title` and `inputs` are what the profiler shows.
  Work(int rank, c10d::OpType type, const char* title,
       const std::optional<std::vector<at::Tensor>>& inputs, std::shared_ptr<Operation> operation,
       std::weak_ptr<Group> group, uint64_t sequence);
  /// What is in flight goes on, with its tensors.
  ~Work() override;

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  int sourceRank() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  uint64_t getSequencenumber() const override { return sequence_; }
  std::chrono::milliseconds getTimeout() const HYMN_TORCH_OVERRIDE_SINCE_15;

 private:
  std::shared_ptr<Operation> operation_;
  std::weak_ptr<Group> group_;
  uint64_t sequence_;
};

}  // namespace hymn_torch
