// hymn's operations as torch's Work.
#include "work.hpp"

#include "errors.hpp"
#include "gil.hpp"
#include "waiter.hpp"

namespace hymn_torch {

Work::Work(int rank, c10d::OpType type, const char* title,
           const std::optional<std::vector<at::Tensor>>& inputs,
           std::shared_ptr<Operation> operation, std::weak_ptr<Group> group, uint64_t sequence)
    : c10d::Work(rank, type, title, inputs),
      operation_(std::move(operation)),
      group_(std::move(group)),
      sequence_(sequence) {
  if (recordFunctionEndCallback_)
    operation_->on_end([end = std::move(recordFunctionEndCallback_)](bool) { end(); });
}

Work::~Work() {
  const WithoutGil moving;
  if (operation_->is_gathering()) return;  // the work that the end gives keeps it
  try {
    if (!operation_->test()) Waiter::of_process().add(std::move(operation_));
  } catch (...) {  // hymn cannot tell of it any more: it is over
  }
}

bool Work::isCompleted() {
  const WithoutGil moving;
  return operation_->test();
}

bool Work::isSuccess() const { return operation_->is_over() && !operation_->error(); }

std::exception_ptr Work::exception() const { return operation_->error(); }

int Work::sourceRank() const {
  const auto group = group_.lock();
  return group ? group->group_rank(operation_->source()) : -1;
}

std::vector<at::Tensor> Work::result() {
  if (!operation_->is_over())
    throw_value_error("hymn: the operation is in flight and has no result yet; wait for it");
  return operation_->results();
}

void Work::synchronize() { operation_->synchronize(); }

bool Work::wait(std::chrono::milliseconds timeout) {
  operation_->wait(std::chrono::duration<double>(timeout).count());
  return true;
}

// hymn's operations end with their group alone.
void Work::abort() {
  if (const auto group = group_.lock()) group->abort("Work::abort() was called");
}

std::chrono::milliseconds Work::getTimeout() const {
  const std::chrono::duration<double> limit(operation_->limit());
  return std::chrono::duration_cast<std::chrono::milliseconds>(limit);
}

c10::intrusive_ptr<c10::ivalue::Future> Work::getFuture() { return operation_->future(); }

}  // namespace hymn_torch
