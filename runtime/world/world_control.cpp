#include "runtime/world/world_control.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/meeting.hpp"

namespace hymn::detail {
namespace {

// A tag of the bootstrap, beside those of world_meeting.cpp and job_map.cpp.
constexpr std::uint64_t tag_control = 7;

/// Rank 0, then one on each other host, then the rest.
std::vector<int> choose_coordinators(const std::vector<Arrival>& arrivals) {
  std::vector<int> coordinators;
  std::vector<int> rest;
  std::set<std::string> hosts;
  for (int rank = 0; rank < static_cast<int>(arrivals.size()); ++rank)
    (hosts.insert(arrivals[static_cast<std::size_t>(rank)].host_key).second ? coordinators : rest)
        .push_back(rank);
  coordinators.insert(coordinators.end(), rest.begin(), rest.end());
  coordinators.resize(std::min(coordinators.size(), control::most_coordinators));
  return coordinators;
}

}  // namespace

void WorldControl::start(Exchange& exchange, const std::vector<Arrival>& arrivals,
                         const std::string& secret, control::Listener& listener,
                         ControlPlane::Calls calls) {
  world_.incidents.start([this] {
    if (world_.peers.has_control()) plane_->flush();
  });
  if (plane_ == nullptr) return;
  ControlSite site{.rank = world_.rank(),
                   .size = world_.settings.size,
                   .coordinators = choose_coordinators(arrivals)};
  site.secret = secret;
  site.recorder = world_.recorder.key();
  site.shared_record = world_.recorder.share();
  const Arrival& own = arrivals[static_cast<std::size_t>(world_.rank())];
  for (int rank = 0; rank < world_.settings.size; ++rank) {
    const PeerDirectory::Person& person = world_.peers.person(rank);
    if (arrivals[static_cast<std::size_t>(rank)].host_key == own.host_key)
      site.here.push_back({rank, person.pid, person.in_sight});
  }
  site.one_host = site.here.size() == arrivals.size();
  const std::vector<int> all = world_.peers.all_ranks();
  const auto offers = all_gather(
      exchange, all, tag_control, plane_->offer(site),
      world_.making_patience("starting the control plane", world_.settings.init_limit(), all));
  auto agent = std::make_shared<control::Agent>(
      world_.rank(), world_.settings.size, listener,
      [control = plane_](const control::Message& message) { control->post(message); });
  world_.peers.open(agent);
  calls.marks = [this] { return world_.registry.marks(); };
  plane_->open(std::move(agent), offers, std::move(calls));
  world_.incidents.watchdog()->beat();  // whoever has a world can be asked for its dump
}

std::shared_ptr<Store> WorldControl::store(Exchange& exchange, bool one_host) {
  const ErrorContext context{.rank = world_.rank(), .operation = "store"};
  world_.life.require_here(context);
  if (world_.life.is_destroyed()) throw UsageError("the world has been destroyed", context);
  world_.life.require_drive(context);
  return store_.get(exchange, plane_ == nullptr ? nullptr : plane_->shared_store(), one_host);
}

void WorldControl::say_goodbye() {
  Watchdog* const watchdog = world_.incidents.watchdog();
  const bool breaks_off = world_.life.is_leaving() || has_thrown_;
  // What this rank knows is gone soon.
  if (watchdog != nullptr && breaks_off)
    watchdog->dump({"error", world_.cause_of_leaving().reason});
  if (watchdog != nullptr) watchdog->leave();
  // Who waits for this rank must not take it for the culprit, unless it is.
  const GroupFailure failure = breaks_off ? world_.cause_of_leaving() : world_.failures.seen();
  world_.peers.post(
      control::Goodbye{world_.registry.marks(), failure.reason, failure.missing, breaks_off});
  const std::uint32_t because =
      breaks_off ? RecorderHeader::farewell_error : RecorderHeader::farewell_after;
  world_.recorder.say_farewell(failure.missing.empty()
                                   ? RecorderHeader::farewell_goodbye
                                   : because + static_cast<std::uint32_t>(failure.missing.front()));
  // Nobody is waited for who might hear it meanwhile.
  if (breaks_off && world_.peers.has_control()) plane_->flush();
}

void WorldControl::note_exception(std::string_view what) {
  if (world_.failures.cause().missing.empty())
    world_.failures.note({fmt::format("an exception has come out of the rank's function: {}", what),
                          {world_.rank()}});
  has_thrown_ = true;
}

void WorldControl::leave_unmade(const Error& error) {
  if (!world_.peers.has_control()) return;
  world_.failures.note({error.problem(), error.context().missing});
  world_.life.mark_leaving();
  say_goodbye();
}

void WorldControl::end() {
  store_.end();
  Watchdog* const watchdog = world_.incidents.watchdog();
  if (watchdog != nullptr) watchdog->end();
  if (!world_.peers.has_control()) return;
  plane_->close();
  world_.peers.agent()->close();
}

}  // namespace hymn::detail
