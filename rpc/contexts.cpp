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

bool ContextRecord::is_released() const {
  const std::lock_guard lock(parts_->mutex);
  return parts_->is_released;
}

void ContextRecord::release() {
  const std::lock_guard lock(parts_->mutex);
  parts_->is_released = true;
}

std::shared_ptr<ContextData> ContextRecord::data(
    const std::function<std::shared_ptr<ContextData>()>& make) {
  const std::lock_guard lock(parts_->mutex);
  if (!parts_->data) parts_->data = make();
  return parts_->data;
}

}  // namespace detail

Context::Context(const rpc::Agent& agent) : agent_(agent.state()) {
  agent_->require_own_process();
  record_ = agent_->contexts().make();
  before_ = rpc::detail::ContextScope::exchange(record_);
}

Context::~Context() {
  rpc::detail::ContextScope::exchange(before_);
  if (!agent_->is_of_parent()) agent_->contexts().end(id());
}

detail::ContextPtr Context::current() { return rpc::detail::ContextScope::current(); }

detail::ContextPtr Context::find(const rpc::Agent& agent, std::uint64_t id) {
  agent.state()->require_own_process();
  auto found = agent.state()->contexts().find(id);
  if (!found)
    throw UsageError(fmt::format("there is no context {:#x} at {}", id, agent.self().name),
                     {.rank = agent.self().rank,
                      .remedy = "keep the Context until all that is done in it has ended"});
  return found;
}

std::size_t Context::count(const rpc::Agent& agent) {
  agent.state()->require_own_process();
  return agent.state()->contexts().size();
}

}  // namespace hymn::distributed

namespace hymn::rpc::detail {
namespace {

constexpr std::size_t most_released = 4096;
constexpr int rank_shift = 40;

thread_local ContextPtr current_context;

int rank_of(std::uint64_t id) { return static_cast<int>(id >> rank_shift) - 1; }

}  // namespace

std::uint64_t Contexts::new_number() {
  return (static_cast<std::uint64_t>(rank_) + 1) << rank_shift | ++last_;
}

ContextPtr Contexts::make() {
  const std::uint64_t id = new_number();
  const std::lock_guard lock(mutex_);
  ++count_of(id);
  return contexts_.emplace(id, std::make_shared<distributed::detail::ContextRecord>(id))
      .first->second;
}

bool Contexts::is_possible(std::uint64_t id) const {
  return id == 0 || (rank_of(id) >= 0 && rank_of(id) < size_);
}

ContextPtr Contexts::reach(std::uint64_t id) {
  if (id == 0) return nullptr;
  const std::lock_guard lock(mutex_);
  if (const auto found = contexts_.find(id); found != contexts_.end()) return found->second;
  if (released_.contains(id) || is_of_lost(id) || rank_of(id) == rank_) return nullptr;
  if (count_of(id) >= most_of_one)
    throw ResourceError(fmt::format("{} contexts that rank {} has begun are known here already",
                                    most_of_one, rank_of(id)),
                        {.rank = rank_,
                         .operation = "rpc",
                         .remedy = "let each Context go when its pass has ended",
                         .missing = {rank_of(id)}});
  ++count_of(id);
  return contexts_.emplace(id, std::make_shared<distributed::detail::ContextRecord>(id))
      .first->second;
}

std::size_t& Contexts::count_of(std::uint64_t id) { return counts_[rank_of(id)]; }

ContextPtr Contexts::find(std::uint64_t id) const {
  const std::lock_guard lock(mutex_);
  const auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : found->second;
}

bool Contexts::is_of_lost(std::uint64_t id) const { return lost_.contains(rank_of(id)); }

void Contexts::end(std::uint64_t id) {
  release(id);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank == rank_) continue;
    Message message;
    message.head.kind = MessageKind::context_released;
    message.head.context = id;
    post_(rank, std::move(message));
  }
}

void Contexts::release(std::uint64_t id) {
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
    --count_of(id);
  }
  released->release();
}

void Contexts::lose(int rank) {
  std::vector<ContextPtr> released;
  {
    const std::lock_guard lock(mutex_);
    lost_.insert(rank);
    counts_.erase(rank);
    std::erase_if(contexts_, [&](auto& entry) {
      const bool is_void = is_of_lost(entry.first);
      if (is_void) released.push_back(std::move(entry.second));
      return is_void;
    });
  }
  for (const ContextPtr& context : released) context->release();
}

void Contexts::clear() {
  std::map<std::uint64_t, ContextPtr> released;
  const std::lock_guard lock(mutex_);
  released.swap(contexts_);
  counts_.clear();
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
