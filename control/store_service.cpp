#include "control/store_service.hpp"

#include <algorithm>
#include <utility>

#include "hymn/error.hpp"

namespace hymn {
namespace {

bool may_change(StoreCall call) {
  return call == StoreCall::set || call == StoreCall::add || call == StoreCall::compare_set;
}

}  // namespace

bool StoreService::handle(int client, const StoreRequest& request, TimePoint now) {
  if (request.call == StoreCall::get || request.call == StoreCall::wait) {
    const Deadline deadline =
        request.wait_ns < 0 ? Deadline::never() : Deadline::after(Duration(request.wait_ns), now);
    return wait({.client = client, .request = request, .deadline = deadline}, now);
  }
  StoreReply reply;
  try {
    reply = reply_to(request);
  } catch (const StoreError& error) {
    reply = {.outcome = StoreOutcome::error, .texts = {error.problem(), error.context().remedy}};
  }
  reply.id = request.id;
  answer_(client, reply);
  if (may_change(request.call)) wake(request.keys[0], now);
  return false;
}

StoreReply StoreService::reply_to(const StoreRequest& request) {
  StoreReply reply;
  switch (request.call) {
    case StoreCall::set:
      map_.set(request.keys[0], request.value);
      break;
    case StoreCall::add:
      reply.number = map_.add(request.keys[0], request.delta);
      break;
    case StoreCall::compare_set:
      reply.value = map_.compare_set(request.keys[0], request.expected, request.value);
      break;
    case StoreCall::erase:
      reply.number = map_.erase(request.keys[0]) ? 1 : 0;
      break;
    case StoreCall::check:
      reply.number = map_.missing(request.keys).empty() ? 1 : 0;
      break;
    case StoreCall::num_keys:
      reply.number = static_cast<std::int64_t>(map_.size());
      break;
    case StoreCall::get:
    case StoreCall::wait:
      break;
  }
  return reply;
}

bool StoreService::serve(const Waiter& waiter) {
  const auto& keys = waiter.request.keys;
  if (!map_.missing(keys).empty()) return false;
  StoreReply reply{.id = waiter.request.id, .outcome = StoreOutcome::done};
  if (waiter.request.call == StoreCall::get) reply.value = *map_.find(keys[0]);
  answer_(waiter.client, reply);
  return true;
}

bool StoreService::wait(Waiter waiter, TimePoint now) {
  if (serve(waiter)) return false;
  auto missing = map_.missing(waiter.request.keys);
  if (waiter.deadline.expired(now)) {
    answer_(
        waiter.client,
        {.id = waiter.request.id, .outcome = StoreOutcome::missing, .texts = std::move(missing)});
    return false;
  }
  waiting_[missing[0]].push_back(std::move(waiter));
  return true;
}

void StoreService::wake(const std::string& key, TimePoint now) {
  if (map_.find(key) == nullptr) return;
  auto found = waiting_.extract(key);
  if (found.empty()) return;
  for (Waiter& waiter : found.mapped()) wait(std::move(waiter), now);
}

StoreService::Waiters StoreService::take(const std::function<bool(const Waiter&)>& wanted) {
  Waiters taken;
  for (auto entry = waiting_.begin(); entry != waiting_.end();) {
    Waiters& waiters = entry->second;
    for (auto at = waiters.begin(); at != waiters.end();) {
      const auto next = std::next(at);
      if (wanted(*at)) taken.splice(taken.end(), waiters, at);
      at = next;
    }
    entry = waiters.empty() ? waiting_.erase(entry) : std::next(entry);
  }
  return taken;
}

void StoreService::forget(int client) {
  take([client](const Waiter& waiter) { return waiter.client == client; });
}

void StoreService::expire(TimePoint now) {
  for (Waiter& waiter : take([now](const Waiter& one) { return one.deadline.expired(now); }))
    wait(std::move(waiter), now);
}

Deadline StoreService::next_deadline() const {
  Deadline next = Deadline::never();
  for (const auto& [key, waiters] : waiting_)
    for (const Waiter& waiter : waiters)
      if (waiter.deadline.when() < next.when()) next = waiter.deadline;
  return next;
}

}  // namespace hymn
