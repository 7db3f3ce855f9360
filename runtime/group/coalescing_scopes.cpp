#include "runtime/group/coalescing_scopes.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/coalesced_calls.hpp"

namespace hymn::detail {
namespace {

/// Unlike its id no later thread of the process has it: what a thread leaves open stays its own.
std::uint64_t number_of_this_thread() {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

}  // namespace

CapturedCalls::CapturedCalls(const CallOptions& options)
    : stream_(options.stream), thread_(number_of_this_thread()) {}

void CapturedCalls::add(const Request& request, const CallOptions& options) {
  if (options.timeout.is_set() || (options.stream != nullptr && options.stream != stream_))
    throw UsageError("a call inside a coalescing scope has no limit and no stream of its own",
                     {.remedy = "give them to the scope"});
  if (!requests_.empty()) {
    const OpType first = requests_.front().type;
    const bool fits = is_message(first) ? is_message(request.type) : request.type == first;
    if (!fits)
      throw UsageError(
          fmt::format("a coalescing scope holds collectives of one kind, or messages, but not {} "
                      "and {}",
                      to_string(first), to_string(request.type)),
          {.remedy = "give each kind a scope of its own"});
    if (!is_message(first)) require_alike(requests_.front(), request);
  }
  requests_.push_back(owned_.emplace_back(request).get());
}

CapturedCalls* CoalescingScopes::find_own() {
  const std::uint64_t thread = number_of_this_thread();
  std::lock_guard lock(mutex_);
  const auto found = std::ranges::find_if(
      scopes_, [thread](const auto& scope) { return scope->thread() == thread; });
  return found == scopes_.end() ? nullptr : found->get();
}

void CoalescingScopes::require_none(const char* call, const GroupMembers& members) {
  if (of_this_thread() == nullptr) return;
  ErrorContext where = members.context(call);
  where.remedy = "make it before the scope or behind it, or the single calls inside";
  throw UsageError(fmt::format("{} cannot be called inside a coalescing scope", call),
                   std::move(where));
}

CapturedCalls& CoalescingScopes::open(const CallOptions& options, const GroupMembers& members) {
  if (of_this_thread() != nullptr) {
    ErrorContext where = members.context("coalesce");
    where.remedy = "end it first: scopes of one group do not nest";
    throw UsageError("a coalescing scope of this thread is open on this group", std::move(where));
  }
  auto calls = std::make_unique<CapturedCalls>(options);
  CapturedCalls& opened = *calls;
  std::lock_guard lock(mutex_);
  scopes_.push_back(std::move(calls));
  open_.store(scopes_.size(), std::memory_order_relaxed);
  return opened;
}

std::unique_ptr<CapturedCalls> CoalescingScopes::close(const CapturedCalls& calls) {
  std::lock_guard lock(mutex_);
  const auto found =
      std::ranges::find_if(scopes_, [&calls](const auto& scope) { return scope.get() == &calls; });
  if (found == scopes_.end()) return nullptr;
  auto closed = std::move(*found);
  scopes_.erase(found);
  open_.store(scopes_.size(), std::memory_order_relaxed);
  return closed;
}

}  // namespace hymn::detail
