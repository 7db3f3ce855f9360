#include "preload/communicator.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "preload/guard.hpp"

namespace hymn::preload {
namespace {

// The last one that this thread has asked for. Any that is freed makes all of these void, for its
// handle may become another's.
std::atomic<std::uint64_t> freed{1};
struct LastFound {
  MPI_Comm comm{};
  Communicator* found = nullptr;
  std::uint64_t freed = 0;
};
constinit thread_local LastFound last_found{};

// Those that the call has freed in which this thread is: an error handler may do so while the call
// that it was called from still has to be recorded. At the end of MPI nothing waits for more.
std::atomic<bool> waits_for_calls{false};
std::vector<std::unique_ptr<Communicator>>& freed_here() {
  static thread_local std::vector<std::unique_ptr<Communicator>> freed_here;
  return freed_here;
}

}  // namespace

Communicator::Communicator(MPI_Comm comm, Watch* watch) : comm_(comm), reason_(Reason::early) {
  PMPI_Comm_rank(comm, &rank_);
  PMPI_Comm_size(comm, &size_);
  const Reason reason = find_reason();
  reason_ = reason;
  const bool is_told =
      reason != Reason::two_groups && reason != Reason::strangers && reason != Reason::one_rank;
  if (watch != nullptr && is_told) watched_ = watch->add(comm, world_ranks_);
}

Reason Communicator::find_reason() {
  int has_two = 0;
  PMPI_Comm_test_inter(comm_, &has_two);
  if (has_two != 0) return Reason::two_groups;
  find_world_ranks();
  if (size_ == 1) return Reason::one_rank;
  if (std::ranges::find(world_ranks_, MPI_UNDEFINED) != world_ranks_.end())
    return Reason::strangers;
  find_order();
  return Reason::early;
}

void Communicator::find_order() {
  own_place_ = static_cast<std::size_t>(rank_);
  if (std::ranges::is_sorted(world_ranks_)) return;
  order_.resize(world_ranks_.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::ranges::sort(order_, {}, [this](int rank) { return world_rank(rank); });
  own_place_ = static_cast<std::size_t>(std::ranges::find(order_, rank_) - order_.begin());
}

std::vector<int> Communicator::members() const {
  std::vector<int> members = world_ranks_;
  std::ranges::sort(members);
  return members;
}

void Communicator::find_world_ranks() {
  MPI_Group own = MPI_GROUP_NULL;
  MPI_Group all = MPI_GROUP_NULL;
  PMPI_Comm_group(comm_, &own);
  PMPI_Comm_group(MPI_COMM_WORLD, &all);
  std::vector<int> ranks(static_cast<std::size_t>(size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  world_ranks_.resize(ranks.size());
  PMPI_Group_translate_ranks(own, size_, ranks.data(), all, world_ranks_.data());
  PMPI_Group_free(&own);
  PMPI_Group_free(&all);
}

Reason Communicator::admit(Groups& groups) {
  const Reason reason = this->reason();
  if (reason == Reason::carried)
    return group_->is_given_up.load(std::memory_order_relaxed) ? Reason::no_group : reason;
  if (reason != Reason::early) return reason;
  if (++calls_ <= free_calls) return reason;
  const Reason opened = open(groups);
  reason_.store(opened, std::memory_order_relaxed);
  return opened;
}

Reason Communicator::open(Groups& groups) {
  group_ = groups.take(comm_, members());
  if (group_ == nullptr) return Reason::no_group;
  hosts_ = groups.hosts_of(world_ranks_);
  return Reason::carried;
}

Communicators::Communicators(Watch* watch) : watch_(watch) {
  waits_for_calls = true;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, forget, &key_, nullptr);
}

int Communicators::forget(MPI_Comm, int, void* value, void*) {
  freed.fetch_add(1, std::memory_order_relaxed);
  std::unique_ptr<Communicator> ended(static_cast<Communicator*>(value));
  if (!Inside::is_on() || !waits_for_calls.load(std::memory_order_relaxed)) return MPI_SUCCESS;
  freed_here().push_back(std::move(ended));
  Inside::at_end(end_freed);
  return MPI_SUCCESS;
}

void Communicators::end_freed() { std::exchange(freed_here(), {}).clear(); }

Communicator* Communicators::find(MPI_Comm comm) {
  const std::uint64_t now = freed.load(std::memory_order_relaxed);
  LastFound& last = last_found;
  if (last.comm == comm && last.freed == now) [[likely]]
    return last.found;
  Communicator* const found = comm == MPI_COMM_NULL ? nullptr : look(comm);
  if (found != nullptr) last = {comm, found, now};
  return found;
}

Communicator* Communicators::look(MPI_Comm comm) {
  void* value = nullptr;
  int is_known = 0;
  if (PMPI_Comm_get_attr(comm, key_, &value, &is_known) != MPI_SUCCESS) return nullptr;
  if (is_known != 0) return static_cast<Communicator*>(value);
  const std::lock_guard lock(making_);
  PMPI_Comm_get_attr(comm, key_, &value, &is_known);
  if (is_known != 0) return static_cast<Communicator*>(value);
  auto made = std::make_unique<Communicator>(comm, watch_);
  if (PMPI_Comm_set_attr(comm, key_, made.get()) != MPI_SUCCESS) return nullptr;
  return made.release();
}

void Communicators::end() {
  waits_for_calls = false;
  freed.fetch_add(1, std::memory_order_relaxed);
  if (key_ == MPI_KEYVAL_INVALID) return;
  for (const MPI_Comm comm : {MPI_COMM_WORLD, MPI_COMM_SELF}) {
    void* value = nullptr;
    int is_known = 0;
    PMPI_Comm_get_attr(comm, key_, &value, &is_known);
    if (is_known != 0) PMPI_Comm_delete_attr(comm, key_);
  }
  PMPI_Comm_free_keyval(&key_);
}

}  // namespace hymn::preload
