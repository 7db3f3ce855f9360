// hymn's worlds and groups, as process groups of torch need them.
#include "world.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <set>
#include <utility>

#include "errors.hpp"
#include "gil.hpp"
#include "tries.hpp"

namespace hymn_torch {
namespace {

/// What the process has of worlds and groups.
struct Registry {
  std::mutex mutex;
  std::weak_ptr<World> of_process;
  std::set<World*> worlds;
  std::set<Group*> groups;
};

// It is never destroyed: the last groups may go after all static objects.
Registry& registry() {
  static auto* const only = new Registry;
  return *only;
}

std::shared_ptr<World> world_of_process() {
  const std::lock_guard<std::mutex> lock(registry().mutex);
  return registry().of_process.lock();
}

bool ascend(const std::vector<int>& ranks) { return std::is_sorted(ranks.begin(), ranks.end()); }

void warn_of(const char* what) noexcept {
  std::fprintf(stderr, "hymn-torch warning: %s: %s\n", what, hymnGetLastError());
}

}  // namespace

World::World(const GroupRequest& request) {
  hymnWorldOptions_t options = HYMN_WORLD_OPTIONS_INIT;
  options.timeout_seconds = request.timeout_seconds;
  const hymnStore_t store = make_store(
      store_of_try(request.store, request.rank, request.size, request.timeout_seconds), trouble_);
  const hymnResult_t made =
      hymnInitFromStore(&handle_, store, request.rank, request.size, &options);
  hymnStoreFree(store);  // a success leaves the text of the last failure as it is
  if (made != hymnSuccess) fail(made);
  const std::lock_guard<std::mutex> lock(registry().mutex);
  registry().worlds.insert(this);
}

World::~World() {
  {
    const std::lock_guard<std::mutex> lock(registry().mutex);
    registry().worlds.erase(this);
  }
  end();
}

void World::end() noexcept {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (handle_ == nullptr) return;
  if (hymnFinalize(std::exchange(handle_, nullptr)) != hymnSuccess) warn_of("ending the world");
}

void World::fail(hymnResult_t result) const {
  const std::string text = hymnGetLastError();
  const std::string why = trouble_->tell();
  throw_error(result, why.empty() ? text : text + " (the store: " + why + ")");
}

hymnGroup_t World::group() const {
  hymnGroup_t group = nullptr;
  check(hymnWorldGroup(handle_, &group));
  return group;
}

hymnGroup_t World::make_group(const GroupRequest& request) {
  hymnGroupOptions_t options = HYMN_GROUP_OPTIONS_INIT;
  options.timeout_seconds = request.timeout_seconds;
  options.description = request.name.c_str();
  options.local_sync = 1;
  if (request.gpu >= 0) options.gpu = &request.gpu;
  hymnGroup_t group = nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  const hymnResult_t made =
      hymnGroupCreate(handle_, request.ranks.data(), request.ranks.size(), &options, &group);
  if (made != hymnSuccess) fail(made);
  return group;
}

Group::Group(const GroupRequest& request) : limit_(request.timeout_seconds) {
  const WithoutGil waiting;
  join(request);
  int own = -1;
  check(hymnWorldGpu(world_->handle(), &own));
  on_gpus_ = std::make_unique<DeviceGroups>(handle_, own, [this](int gpu) { return make_on(gpu); });
  const std::lock_guard<std::mutex> lock(registry().mutex);
  registry().groups.insert(this);
}

void Group::join(const GroupRequest& request) {
  world_ranks_ = request.ranks;
  const bool is_default = request.ranks.empty();
  // hymn's groups have their ranks in ascending order: one in another order is a world.
  if (!is_default && ascend(request.ranks))
    world_ = request.world ? request.world : world_of_process();
  if (world_) {
    handle_ = world_->make_group(request);
    return;
  }
  world_ = std::make_shared<World>(request);
  handle_ = world_->group();
  is_of_world_ = true;
  const bool keeps_ranks = is_default || ascend(request.ranks);
  world_ranks_.resize(static_cast<std::size_t>(request.size));
  std::iota(world_ranks_.begin(), world_ranks_.end(), 0);
  if (!request.has_all || !keeps_ranks) return;
  const std::lock_guard<std::mutex> lock(registry().mutex);
  registry().of_process = world_;
}

Group::~Group() {
  const WithoutGil waiting;
  {
    const std::lock_guard<std::mutex> lock(registry().mutex);
    registry().groups.erase(this);
  }
  on_gpus_->free();
  if (alone_ != nullptr && hymnGroupFree(alone_) != hymnSuccess) warn_of("ending a group");
  if (!is_of_world_ && hymnGroupFree(handle_) != hymnSuccess) warn_of("ending a group");
  world_.reset();
}

GroupRequest Group::part(const std::vector<int>& ranks) const {
  GroupRequest request;
  request.size = static_cast<int>(ranks.size());
  request.timeout_seconds = limit();
  for (const int rank : ranks) request.ranks.push_back(world_rank(rank));
  request.world = world_;
  return request;
}

hymnGroup_t Group::make_on(int gpu) {
  GroupRequest request;
  request.ranks = world_ranks_;
  request.timeout_seconds = limit();
  request.name = "on another GPU";
  request.gpu = gpu;
  return world_->make_group(request);
}

int Group::world_rank(int64_t rank) const {
  if (rank < 0 || rank >= static_cast<int64_t>(world_ranks_.size()))
    throw_value_error("hymn: rank " + std::to_string(rank) + " is not among the " +
                      std::to_string(world_ranks_.size()) + " ranks of the group");
  return world_ranks_[static_cast<std::size_t>(rank)];
}

int Group::group_rank(int world_rank) const {
  const auto found = std::find(world_ranks_.begin(), world_ranks_.end(), world_rank);
  return found == world_ranks_.end() ? -1 : static_cast<int>(found - world_ranks_.begin());
}

void Group::set_limit(double seconds) {
  check(hymnGroupSetTimeout(handle_, seconds));
  on_gpus_->for_each([seconds](hymnGroup_t group) { check(hymnGroupSetTimeout(group, seconds)); });
  limit_.store(seconds, std::memory_order_relaxed);
}

void Group::abort(const std::string& reason) {
  const WithoutGil waiting;
  const hymnResult_t aborted = hymnGroupAbort(handle_, reason.c_str());
  on_gpus_->abort(reason);
  check(aborted);
}

void Group::abandon() const noexcept {
  constexpr const char* reason = "this process ends while operations are in flight";
  hymnGroupAbort(handle_, reason);
  on_gpus_->abort(reason);
}

hymnGroup_t Group::alone() {
  std::call_once(alone_is_made_, [this] {
    GroupRequest request;
    int rank = 0;
    check(hymnWorldRank(world_->handle(), &rank));
    request.ranks = {rank};
    request.timeout_seconds = limit();
    request.name = "tried on one rank";
    alone_ = world_->make_group(request);
  });
  return alone_;
}

void Group::require_reduction(hymnDataType_t type, hymnOp_t op) {
  alignas(16) unsigned char element[16] = {};
  check(hymnAllReduce(element, element, 1, type, op, alone(), nullptr));
}

void end_all_worlds(bool has_operations) noexcept {
  std::set<World*> worlds;
  {
    const std::lock_guard<std::mutex> lock(registry().mutex);
    worlds = registry().worlds;
    if (has_operations)
      for (const Group* group : registry().groups) group->abandon();
  }
  for (World* world : worlds) world->end();
}

}  // namespace hymn_torch
