// What stands behind a World: its parts, and how it begins and ends.
#pragma once

#include <memory>
#include <vector>

#include "base/config.hpp"
#include "base/exchange_mux.hpp"
#include "hymn/world.hpp"
#include "recorder/metrics_file.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/world_context.hpp"
#include "runtime/mechanisms/nccl_mechanism.hpp"
#include "runtime/world/group_requests.hpp"
#include "runtime/world/group_shrink.hpp"
#include "runtime/world/known_groups.hpp"
#include "runtime/world/long_waits.hpp"
#include "runtime/world/overdue_works.hpp"
#include "runtime/world/world_control.hpp"
#include "runtime/world/world_listener.hpp"
#include "runtime/world/world_meeting.hpp"

namespace hymn {
class MemoryQuery;
}  // namespace hymn

namespace hymn::detail {

/// What a World is made of.
struct WorldParts {
  /// Throws ConfigError for settings that this rank alone can find wrong: before anything is made
  /// that concerns others.
  explicit WorldParts(Config config, WorldOptions options = {});

  /// That MPI is asked for where it has not been initialised.
  ThreadLevel thread_level() const;

  Config config;
  WorldOptions options;
  // As the options say, or else the configuration.
  PathPolicy path;
  AlgoPolicy algo;
  bool own_thread;
  MemoryQuery* memory;  ///< of pointers; null: no GPU can be used
  GpuLibraries gpus;    ///< for mechanisms
  std::shared_ptr<Exchange> exchange{};
  std::vector<std::unique_ptr<Mechanism>> mechanisms{};  ///< in order of preference
  /// What carries news of failures; null: none.
  std::unique_ptr<ControlPlane> control{};
  /// What can be seen of the ranks before they have met; null: nothing.
  std::shared_ptr<EarlySight> early{};
  const Clock* clock = &steady_clock();
  bool in_one_process = false;            ///< all ranks are threads of this process
  std::optional<PretendedSite> site{};    ///< instead of where the rank really is
  std::shared_ptr<const FakeJob> fake{};  ///< null: the other ranks are there
  bool is_hidden = false;                 ///< other processes are not to find its record
  void (*meanwhile)() = nullptr;          ///< as WorldSettings::meanwhile
};

class WorldState;
/// What stands behind a World. Throws UsageError for an empty one.
WorldState& need(const std::shared_ptr<WorldState>& state);

class WorldState final : public std::enable_shared_from_this<WorldState>, private GroupOwner {
 public:
  /// Collective over the exchange: learns where the ranks are and makes the group of all.
  static std::shared_ptr<WorldState> make(WorldParts parts);
  explicit WorldState(WorldParts parts);
  ~WorldState() override;
  static const WorldState& of(const World& world) { return need(world.state_); }
  static WorldState& of(World& world) { return need(world.state_); }

  /// What its groups share.
  WorldContext& context() { return context_; }
  const WorldContext& context() const { return context_; }
  GroupRequests& groups() { return groups_; }
  WorldControl& control() { return control_; }
  std::shared_ptr<Store> store() {
    return control_.store(*exchange_, met_.job.world.hosts.size() == 1);
  }
  const JobMap& job_map() const { return met_.job; }
  /// As World::gpu().
  int gpu() const;
  /// The costs that were measured on machines like those of rank 0; null: none.
  const std::shared_ptr<const TuningTable>& tuning() const { return met_.tuning; }
  /// Null: there is none. Somebody calls its tick().
  MetricsFile* metrics_file() const { return metrics_file_.get(); }
  /// Messages that came, and that nobody could receive any more.
  std::uint64_t dropped_messages() const;

  ProcessGroup& default_group() { return default_group_; }
  /// The world's handle is gone: nobody can ask for the group of all any more.
  void release_default_group() { default_group_ = ProcessGroup(); }

  /// MPI is about to be finalized: gives what is in flight a moment to complete. Never throws.
  void finish_works() noexcept;
  void destroy();

 private:
  void begin();
  void start_working();
  void beat();
  bool move();
  // In world_end.cpp.
  WorldEnd agree_to_end();
  std::uint64_t left_over() const;
  void group_ended(const GroupState& group, bool clean) override {
    groups_.factory().group_ended(group, clean);
  }
  void forget_group(const GroupState& group) override { groups_.factory().forget_group(group); }
  ProcessGroup shrink(GroupState& group) override { return shrink_.shrink(group); }
  void require_options(const GroupOptions& options, const ErrorContext& context) const override {
    groups_.require_options(options, context);
  }
  ProcessGroup new_group_in_order(const GroupState& group, std::vector<int> ranks,
                                  const GroupOptions& options) override {
    return groups_.new_group_in_order(group.members().uid(), std::move(ranks), options);
  }

  std::shared_ptr<ExchangeMux> mux_;    ///< over which each group has an exchange of its own
  std::shared_ptr<Exchange> exchange_;  ///< of the world itself
  std::vector<std::unique_ptr<Mechanism>> mechanisms_;
  std::unique_ptr<ControlPlane> plane_;
  WorldMet met_;
  WorldContext context_;
  std::unique_ptr<MetricsFile> metrics_file_;
  KnownGroups known_groups_;
  GroupRequests groups_;
  GroupShrink shrink_;
  LongWaits long_waits_;
  OverdueWorks overdue_works_;
  WorldListener listener_;
  WorldControl control_;
  ProcessGroup default_group_;
};

}  // namespace hymn::detail
