#include "rpc/contexts.hpp"

#include <fmt/format.h>

#include <utility>

#include "hymn/error.hpp"
#include "rpc/agent_state.hpp"

namespace hymn::distributed {

ContextData::~ContextData() = default;

namespace detail {

struct ContextRecord::Parts {
  std::mutex mutex;
  std::map<std::uint64_t, Sent> sends;
  std::set<int> workers;
  bool is_released = false;
  std::shared_ptr<ContextData> data;
};

ContextRecord::ContextRecord(std::uint64_t id) : id_(id), parts_(std::make_unique<Parts>()) {}
ContextRecord::~ContextRecord() = default;

void ContextRecord::add_send(std::uint64_t message, Sent sent) {
  const std::lock_guard lock(parts_->mutex);
  parts_->sends.emplace(message, std::move(sent));
}

std::map<std::uint64_t, Sent> ContextRecord::sends() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->sends;
}

bool ContextRecord::add_worker(int rank) {
  const std::lock_guard lock(parts_->mutex);
  if (!parts_->is_released) parts_->workers.insert(rank);
  return !parts_->is_released;
}

std::vector<int> ContextRecord::release() {
  const std::lock_guard lock(parts_->mutex);
  parts_->is_released = true;
  return {parts_->workers.begin(), parts_->workers.end()};
}

std::shared_ptr<ContextData> ContextRecord::data(
    const std::function<std::shared_ptr<ContextData>()>& make) {
  const std::lock_guard lock(parts_->mutex);
  if (!parts_->data) parts_->data = make();
  return parts_->data;
}

}  // namespace detail

Context::Context(const rpc::Agent& agent)
    : agent_(agent.state()), record_(agent_->contexts().make()) {
  before_ = rpc::detail::ContextScope::exchange(record_);
}

Context::~Context() {
  rpc::detail::ContextScope::exchange(before_);
  agent_->contexts().release(id(), agent_->rank());
}

detail::ContextPtr Context::current() { return rpc::detail::ContextScope::current(); }

detail::ContextPtr Context::find(const rpc::Agent& agent, std::uint64_t id) {
  auto found = agent.state()->contexts().find(id);
  if (!found)
    throw UsageError(fmt::format("there is no context {:#x} at {}", id, agent.self().name),
                     {.rank = agent.self().rank,
                      .remedy = "keep the Context until all that is done in it has ended"});
  return found;
}

std::size_t Context::count(const rpc::Agent& agent) { return agent.state()->contexts().size(); }

}  // namespace hymn::distributed

namespace hymn::rpc::detail {
namespace {

constexpr std::size_t most_released = 4096;
constexpr int rank_shift = 40;

thread_local ContextPtr current_context;

}  // namespace

std::uint64_t Contexts::new_number() {
  return (static_cast<std::uint64_t>(rank_) + 1) << rank_shift | ++last_;
}

ContextPtr Contexts::make() {
  const std::uint64_t id = new_number();
  const std::lock_guard lock(mutex_);
  return contexts_.emplace(id, std::make_shared<distributed::detail::ContextRecord>(id))
      .first->second;
}

ContextPtr Contexts::reach(std::uint64_t id) {
  if (id == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  if (released_.contains(id)) return nullptr;
  auto& context = contexts_[id];
  if (!context) context = std::make_shared<distributed::detail::ContextRecord>(id);
  return context;
}

ContextPtr Contexts::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : found->second;
}

void Contexts::release(std::uint64_t id, int told_by) {
  ContextPtr released;
  {
    const std::lock_guard lock(mutex_);
    const auto found = contexts_.find(id);
    // What comes late of it must not make it again.
    if (released_.insert(id).second) order_.push_back(id);
    if (order_.size() > most_released) {
      released_.erase(order_.front());
      order_.pop_front();
    }
    if (found == contexts_.end()) return;
    released = std::move(found->second);
    contexts_.erase(found);
  }
  for (const int rank : released->release()) {
    if (rank == told_by || rank == rank_) continue;
    Message message;
    message.head.kind = MessageKind::context_released;
    message.head.context = id;
    post_(rank, std::move(message));
  }
}

void Contexts::lose(int rank) {
  std::vector<ContextPtr> released;
  const std::lock_guard lock(mutex_);
  std::erase_if(contexts_, [&](auto& entry) {
    const bool is_void = entry.first >> rank_shift == static_cast<std::uint64_t>(rank) + 1;
    if (is_void) released.push_back(std::move(entry.second));
    return is_void;
  });
}

void Contexts::clear() {
  std::map<std::uint64_t, ContextPtr> released;
  const std::lock_guard lock(mutex_);
  released.swap(contexts_);
}

std::size_t Contexts::size() const {
  const std::lock_guard lock(mutex_);
  return contexts_.size();
}

ContextScope::ContextScope(ContextPtr context) : before_(exchange(std::move(context))) {}
ContextScope::~ContextScope() { exchange(std::move(before_)); }
ContextPtr ContextScope::current() { return current_context; }
ContextPtr ContextScope::exchange(ContextPtr context) {
  return std::exchange(current_context, std::move(context));
}

bool record_value(Packed& packed, std::shared_ptr<void> depends_on, std::uint64_t& number) {
  if (!current_context) return false;
  packed.context = current_context->id();
  number = packed.values.size();
  packed.values.push_back(std::move(depends_on));
  return true;
}

}  // namespace hymn::rpc::detail
