// How a group tells what went wrong, and remembers it.

#include <fmt/format.h>

#include "runtime/group_state.hpp"
#include "runtime/world_state.hpp"

namespace hymn::detail {

std::string GroupState::label() const {
  // Many groups may share a description; the number tells which one.
  return membership_.uid == 0 ? description_ : fmt::format("{}#{}", description_, membership_.uid);
}

ErrorContext GroupState::context(std::string operation) const {
  return {.rank = world_->rank(), .group = label(), .operation = std::move(operation)};
}

std::exception_ptr GroupState::timeout_error(const std::string& title, Duration waited,
                                             Timeout limit, std::string_view consequence) const {
  auto seconds = [](Duration duration) { return std::chrono::duration<double>(duration).count(); };
  ErrorContext where = context(title);
  where.remedy = "look for a rank that has failed, or has not made this call; or allow more time";
  return std::make_exception_ptr(TimeoutError(
      fmt::format(
          "{} of group '{}' has not completed on rank {} after {:.3f} s (limit {:.3f} s); {}",
          title, label(), world_->rank(), seconds(waited), seconds(limit.duration()), consequence),
      waited, std::move(where)));
}

std::string GroupState::describe_failure(const std::exception_ptr& error,
                                         const std::string& title) const {
  std::string text = "an unknown failure";
  try {
    std::rethrow_exception(error);
  } catch (const TimeoutError& timeout) {
    text = fmt::format("not complete after {:.3f} s",
                       std::chrono::duration<double>(timeout.waited()).count());
  } catch (const Error& failure) {
    text = failure.problem();
  } catch (const std::exception& failure) {
    text = failure.what();
  } catch (...) {
  }
  return fmt::format("rank {}: {}: {}", world_->rank(), title, text);
}

void GroupState::abort(const std::string& reason) {
  {
    std::lock_guard lock(mutex_);
    if (!aborted_.load(std::memory_order_relaxed)) abort_reason_ = reason;
    aborted_.store(true, std::memory_order_release);
    world_->registry().set_aborted(membership_.uid, abort_reason_);
  }
  line_->flags.fetch_or(GroupLine::aborted, std::memory_order_acq_rel);
  world_->mark_failed();
}

std::string GroupState::abort_reason() const {
  std::lock_guard lock(mutex_);
  return abort_reason_;
}

std::exception_ptr GroupState::aborted_error(const std::string& operation) const {
  ErrorContext where = context(operation);
  where.remedy = "make a new group, or a new World, of the ranks that are left";
  return std::make_exception_ptr(
      AbortedError(fmt::format("the group was aborted: {}", abort_reason()), std::move(where)));
}

}  // namespace hymn::detail
