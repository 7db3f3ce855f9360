// What stands behind a World: everything that its groups share in this process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.hpp"
#include "base/company_watch.hpp"
#include "base/config.hpp"
#include "base/exchange_mux.hpp"
#include "base/own_process.hpp"
#include "base/recent_map.hpp"
#include "collectives/planner/planner.hpp"
#include "control/agent.hpp"
#include "hymn/world.hpp"
#include "recorder/call_metrics.hpp"
#include "recorder/call_ring.hpp"
#include "recorder/group_registry.hpp"
#include "recorder/metrics_file.hpp"
#include "recorder/recorder_memory.hpp"
#include "recorder/watchdog.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/progress_engine.hpp"
#include "runtime/mechanisms/mechanism.hpp"
#include "runtime/mechanisms/nccl_mechanism.hpp"
#include "runtime/world/arrival.hpp"
#include "runtime/world/control_plane.hpp"
#include "runtime/world/early_sight.hpp"
#include "runtime/world/group_maker.hpp"
#include "runtime/world/job_map.hpp"
#include "runtime/world/wait_reports.hpp"

namespace hymn {
struct DumpRequest;
struct FrameSource;
class MemoryQuery;
}  // namespace hymn

namespace hymn::detail {

/// What a World is made of.
struct WorldParts {
  /// Throws ConfigError for settings that this rank alone can find wrong: before anything is made
  /// that concerns others.
  explicit WorldParts(Config config, WorldOptions options = {});

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
  bool in_one_process = false;          ///< all ranks are threads of this process
  std::optional<PretendedSite> site{};  ///< tests: instead of where the rank really is
};

class WorldState;
/// What stands behind a World. Throws UsageError for an empty one.
WorldState& need(const std::shared_ptr<WorldState>& state);

class WorldState final : public std::enable_shared_from_this<WorldState>,
                         private control::Listener {
 public:
  /// Collective over the exchange: learns where the ranks are and makes the group of all.
  static std::shared_ptr<WorldState> make(WorldParts parts);
  explicit WorldState(WorldParts parts);
  ~WorldState() override;
  static const WorldState& of(const World& world) { return need(world.state_); }
  static WorldState& of(World& world) { return need(world.state_); }

  int rank() const { return rank_; }
  int size() const { return size_; }
  const Config& config() const { return config_; }
  const Clock& clock() const { return *clock_; }
  /// Of pointers; null: no GPU can be used.
  MemoryQuery* memory() const { return memory_; }
  const Logger& logger() const { return logger_; }
  const JobMap& job_map() const { return job_; }
  /// As World::gpu().
  int gpu() const {
    const GroupState* const all = GroupState::of(default_group_);
    return all != nullptr && all->reach().gpu ? all->reach().gpu->index() : -1;
  }
  /// The costs that were measured on machines like those of rank 0; null: none.
  const std::shared_ptr<const TuningTable>& tuning() const { return tuning_; }
  ProgressEngine& engine() { return *engine_; }
  CallRing& ring() { return recorder_.ring(); }
  const CallRing& ring() const { return recorder_.ring(); }
  RecorderMemory& recorder() { return recorder_; }
  const RecorderMemory& recorder() const { return recorder_; }
  /// All groups that dumps tell of.
  GroupRegistry& registry() { return registry_; }
  const GroupRegistry& registry() const { return registry_; }
  /// For a dump of this rank: all groups are in it. Thread-safe.
  DumpRequest dump_request() const;
  Timeout default_timeout() const { return default_timeout_; }
  CheckLevel checks() const { return checks_; }
  /// Null: nothing is counted.
  CallMetrics* metrics() const { return metrics_.get(); }
  /// Null: there is none. Somebody calls its tick().
  MetricsFile* metrics_file() const { return metrics_file_.get(); }
  Patience patience(std::string purpose, Timeout timeout) const;
  /// The same for what all of these make together: throws a PeerError soon after one of them is
  /// gone.
  Patience making_patience(std::string purpose, Timeout timeout, std::vector<int> ranks) const;
  /// What says in the log that waiting lasts for long; null where nothing is to be said.
  std::shared_ptr<LongWait> long_wait(const std::string& purpose) const;
  bool has_control() const { return agent_ != nullptr; }
  /// To the coordinator, where calls of different ranks are compared.
  void announce_call(const control::EnteredCall& note) const {
    if (agent_) agent_->post(note);
  }
  bool may_drive() const;
  /// Whether this thread may step works, be it to end them: what MPI was finalized under fails at
  /// its next step, on any thread.
  bool may_end_works() const { return !is_copied() && (may_drive() || !exchange_->is_open()); }
  /// False once nothing can be sent any more: MPI has been finalized, or this is another process.
  bool is_open() const { return !is_copied() && exchange_->is_open(); }
  /// This process is a child made by fork() of the one that has the world. Nothing of it may be
  /// used: what its peers see belongs to the parent.
  bool is_copied() const { return copied_.load(std::memory_order_relaxed); }
  /// Throws UsageError where that is so.
  void require_here(const ErrorContext& context) const;
  /// Throws UsageError when this thread may not move operations forward.
  void require_drive(const ErrorContext& context) const;

  ProcessGroup& default_group();
  ProcessGroup new_group(std::span<const int> ranks, const GroupOptions& options);
  Future<ProcessGroup> new_group_async(std::span<const int> ranks, const GroupOptions& options);
  ProcessGroup shrink(GroupState& group);
  /// The next group gets this uid, no less than it would get; on all ranks alike.
  void skip_uids_to(std::uint64_t uid);
  /// Messages that came, and that nobody could receive any more.
  std::uint64_t dropped_messages() const;
  /// A group has ended on this rank.
  void group_ended(const GroupState& group, bool clean);
  /// The world's handle is gone: nobody can ask for the group of all any more.
  void release_default_group() { default_group_ = ProcessGroup(); }
  /// Something went wrong in a way that leaves ranks out of step.
  void mark_failed() { failed_.store(true, std::memory_order_release); }
  /// The first one that is somebody's is told to others when this rank leaves because of it; but
  /// who has made a call since that has completed has gone on.
  void note_failure(const GroupState::Failure& failure);
  /// Of a send or receive that went wrong and has left nothing behind.
  void note_failed_message(const GroupState::Failure& failure);
  /// The first that concerned a group, or else that of a message, if this rank has not gone on.
  GroupState::Failure failure_seen() const;
  /// The application goes on with those who are left.
  void forget_failure();
  GroupState::Failure first_failure() const;
  bool has_failed() const { return failed_.load(std::memory_order_acquire); }
  /// This rank leaves because of an exception: it will not wait for its peers at the end.
  void mark_leaving() { leaving_.store(true, std::memory_order_release); }
  bool is_leaving() const { return leaving_.load(std::memory_order_acquire); }

  // --- Failures, in world_failure.cpp
  /// "rank 3 (nodeB, pid 4711)"
  std::string name_of(int rank) const;
  /// How a rank has ended: "rank 1 (vm, pid 7) is dead: its process was killed by signal 9".
  std::string describe_end(const PeerNews& news) const;
  /// Whose failure it was, of those that `told` does not name; empty: its own, or not known.
  std::string tell_culprits(const PeerNews& news, std::string_view told) const;
  /// Those that this text names and from which nothing comes any more, or who is to blame for it.
  std::vector<int> gone_ranks_in(std::string_view text) const;
  /// Where those ranks are in the group, as far as can be found out within `limit`.
  std::vector<ProgressReport> ask(const Inquiry& about, std::span<const int> ranks,
                                  Duration limit) const;
  /// Adds for whom those wait that are missing; asks for up to `patience`.
  void follow_waits(MissingRanks& missing, Duration waited, Duration patience) const;
  /// The same error of making a group, which names those who have not come, and what they do.
  TimeoutError with_missing(const TimeoutError& error, const Membership& group) const;
  /// What has been answered to a question of the agent's until now, and can be seen without.
  std::vector<ProgressReport> end_asking(std::uint64_t question, const Inquiry& about) const;
  /// Adds to what ranks do where in the program they do it. Those of other hosts have to be asked,
  /// for which it waits up to `limit`; if that is zero they are not.
  void find_sites(std::span<ProgressReport> reports, Inquiry about, Duration limit) const;
  /// As site_text(), of a call that a rank of this host has made.
  std::string site_of(int rank, std::uint64_t site) const;
  /// What another rank of this host records now; nothing where that cannot be read.
  std::optional<RecorderView> records_of(int rank) const;
  /// By which this rank speaks with the others; null: there is no control plane.
  control::Agent* agent() const { return agent_.get(); }
  /// Tells all others that the group is given up.
  void announce_abort(std::uint64_t uid, const GroupState::Failure& failure);
  /// Something has gone wrong here: this rank writes its dump, and all others do.
  void incident(const Incident& incident);
  /// A group with this rank was given up, here or elsewhere: what the policy says is done.
  void group_failed(const GroupState::Failure& failure);
  void dump(const std::string& reason);
  /// A call of another library in which this rank may be stuck; `name` must stay.
  class OuterCall {
   public:
    OuterCall(WorldState& world, const char* name) : world_(world) {
      world_.enter_outer_call(name);
    }
    OuterCall(const OuterCall&) = delete;
    OuterCall& operator=(const OuterCall&) = delete;
    ~OuterCall() {
      world_.outer_call_.store(nullptr, std::memory_order_release);
      world_.recorder_.set_outer_call("", 0);
    }

   private:
    WorldState& world_;
  };
  /// Every group, from when it is made until it is destroyed.
  void enter_group(GroupState& group);
  void forget_group(const GroupState& group);

  /// MPI is about to be finalized: gives what is in flight a moment to complete. Never throws.
  void finish_works() noexcept;
  void destroy();
  bool is_destroyed() const { return destroyed_.load(std::memory_order_acquire); }

 private:
  // In world_meeting.cpp.
  void meet();
  void check_settings(int rank, Unpacker& unpacker) const;
  struct TuningFile {
    std::string path;
    std::string text;     ///< empty: there is none
    std::string library;  ///< of rank 0: others may run another patch level of MPI
  };
  TuningFile find_tuning(const MachineReader& read) const;
  void use_tuning(const TuningFile& file);
  void warn_of_tuning(const std::string& problem) const;
  void bind_caller();
  CpuSet helper_cpus() const;
  // In world_greeting.cpp.
  void tell_of_start() const;
  void tell_of_host() const;
  void tell_of_paths() const;
  /// Of a group that is about to be made. Throws UsageError.
  Membership new_membership(std::span<const int> ranks, const GroupOptions& options);
  std::shared_ptr<GroupState> make_group(Membership membership, const GroupOptions& options);
  /// What the members of a new group have told each other.
  struct Agreement {
    std::vector<std::vector<Bytes>> offers;   ///< by mechanism, then by member
    std::vector<std::vector<Bytes>> answers;  ///< likewise
    bool blocks = true;                       ///< see GroupState
    GroupLayout layout;
  };
  Agreement agree(Exchange& exchange, const Membership& membership, const GroupOptions& options);
  std::vector<std::vector<Bytes>> answer(Exchange& exchange, const Membership& membership,
                                         const std::vector<std::vector<Bytes>>& offers,
                                         Timeout limit);
  GroupState::Means find_means(std::shared_ptr<Exchange> exchange, const Membership& membership,
                               const GroupOptions& options, Agreement agreement);
  PlanContext plan_context(GroupLayout layout, const PathPolicy& path) const;
  bool shares_memory() const;
  bool is_member(const Membership& membership) const;
  /// How long the members of a new group wait for each other.
  Timeout making_limit(const GroupOptions& options) const;
  std::vector<int> all_ranks() const;
  Timeout init_limit() const { return init_timeout_.or_else(default_timeout_); }
  void require_no_callback() const;
  void finish_making();
  WorldEnd agree_to_end();
  std::uint64_t left_over() const;

  // In world_failure.cpp.
  void get_to_know(const std::vector<Arrival>& arrivals);
  void start_control(const std::vector<Arrival>& arrivals, const std::string& secret);
  void say_goodbye();
  GroupState::Failure cause_of_leaving() const;
  /// The world does not come to be on this rank, because of this.
  void leave_unmade(const Error& error);
  // In world_watch.cpp.
  void make_watchdog();
  void enter_outer_call(const char* name);
  void dump_for(const PeerNews& news);
  void look_after_works();
  // In world_waits.cpp, on the thread that beats.
  void look_after_waits();
  std::vector<CallRecord> waited_calls() const;
  /// A wait that has lasted for long, while the others are asked about it.
  /// Who is there answers at once, unless the places in its program have to be looked up first.
  static constexpr int longest_answer = 6;  // beats
  struct WaitAsked {
    CallRecord call{};
    Inquiry about{};
    std::vector<int> ranks{};
    std::uint64_t question = 0;
    int beats = 0;  ///< since the others were asked
  };
  /// A work whose limit has passed, of which the others were asked.
  struct OverdueAsked {
    ProgressEngine::Overdue work;
    Inquiry about{};
    std::optional<std::uint64_t> question{};  ///< none: there is nobody to ask
    int beats = 0;                            ///< since then
  };
  OverdueAsked ask_about(const ProgressEngine::Overdue& work);
  /// True: all is done about it.
  bool look_after(OverdueAsked& asked);
  /// The oldest of its group from collective `first` on.
  void give_up_overdue(const OverdueAsked& asked, std::uint64_t first,
                       std::vector<ProgressReport> reports);
  void ask_about(const CallRecord& call);
  /// "rank 1 (vm, pid 7) has not arrived: it has been in …; rank 2 …".
  std::string tell_absent(std::span<const ProgressReport> reports) const;
  /// The same for what is waited for outside of calls, on the thread that waits.
  void report_waiting(const std::string& purpose, std::vector<ProgressReport> missing,
                      Duration waited, bool quietly) const;
  /// Of shrink(): whom this rank waits for to have done the same with the group `uid`.
  std::shared_ptr<LongWait> long_wait_in_shrink(std::string purpose, std::uint64_t uid,
                                                std::vector<int> ranks) const;
  Patience shrink_patience(const GroupState& group, std::uint64_t uid,
                           std::vector<int> ranks) const;
  void report(const WaitAsked& wait, std::vector<ProgressReport> reports, Duration waited) const;
  /// Calls with the group, if it is there and this rank a member.
  bool with_group(std::uint64_t uid, const std::function<void(const GroupState&)>& use) const;
  void beat();
  void end_control();
  void peer_changed(const PeerNews& news) override;
  void group_aborted(const control::AbortGroup& message) override;
  void dump_asked(const control::DumpNow& message) override;
  ProgressReport tell(const Inquiry& about) override;
  CallProgress tell_calls(std::uint64_t uid, std::uint64_t sequence) override;
  OwnWait own_wait() const;
  std::vector<GroupMark> marks() override;
  void look_at_silent(std::vector<ProgressReport>& reports, const Inquiry& about) const;
  FrameSource sites_of(int rank, const RecorderView& view) const;
  /// Of one that has left: what it had given up waiting for.
  void add_given_up(ProgressReport& report, const Inquiry& about, const RecorderView& view) const;
  /// What is told of a stopped process begins so.
  static constexpr std::string_view stopped_words = "its process is stopped; ";
  /// From what a rank has recorded; `sites` as CallWords.
  void add_calls(ProgressReport& report, const RecorderView& view, const Inquiry& about,
                 const FrameSource* sites) const;
  Timeout shrink_limit(const GroupState& group) const;
  /// Nothing where one that it is made of is lost before all have it.
  std::shared_ptr<GroupState> make_shrunk_group(const GroupState& group,
                                                const control::ShrinkVerdict& verdict);
  /// Whom shrink() of this group still waits for to have done that with the group `uid`.
  [[noreturn]] void throw_not_all_have(const GroupState& group, const char* done, std::uint64_t uid,
                                       const std::vector<int>& ranks, Duration waited) const;
  /// Whether nothing more is to be expected of a rank.
  bool is_hopeless(int rank) const;
  /// Its process can be seen from here, and has ended.
  bool is_over(int rank) const;
  /// As Company::tell_of.
  std::string tell_of(int rank) const;
  Company company(std::vector<int> ranks) const;
  /// Who is to blame that these have not come.
  std::vector<int> culprits_for(const std::vector<int>& missing) const;

  std::shared_ptr<ExchangeMux> mux_;    ///< over which each group has an exchange of its own
  std::shared_ptr<Exchange> exchange_;  ///< of the world itself
  std::vector<std::unique_ptr<Mechanism>> mechanisms_;
  std::vector<const Mechanism*> gates_;  ///< of those: has_gate()
  Config config_;
  const Clock* clock_;
  MemoryQuery* memory_;
  int rank_;
  int size_;
  Logger logger_;
  Timeout default_timeout_;
  Timeout init_timeout_;  // unset: as the limit of operations
  PathPolicy path_;
  AlgoPolicy algo_;
  Reproducibility reproducibility_;
  bool own_thread_;
  CheckLevel checks_;
  std::unique_ptr<CallMetrics> metrics_;
  std::unique_ptr<MetricsFile> metrics_file_;
  bool in_one_process_;
  bool has_peers_here_;  ///< other ranks are threads of this process
  std::optional<PretendedSite> site_;
  CpuSet granted_;              // to the thread that makes the world, before HYMN_BIND
  bool oversubscribed_ = true;  // until it is known
  JobMap job_;
  std::shared_ptr<const TuningTable> tuning_;
  RecorderMemory recorder_;
  GroupRegistry registry_;
  std::unique_ptr<ProgressEngine> engine_;
  std::atomic<ProgressEngine*> watched_engine_{nullptr};  // once the watchdog may look at it

  /// Of every rank: where it is, and what process.
  struct Person {
    std::string host;
    int pid = 0;
    bool in_sight = false;  ///< as LocalRank says
  };
  std::vector<Person> persons_;
  std::shared_ptr<EarlySight> early_;  ///< may be null; until persons_ are known
  std::unique_ptr<ControlPlane> control_;
  std::shared_ptr<control::Agent> agent_;
  std::unique_ptr<Watchdog> watchdog_;
  WaitReports wait_reports_;
  std::vector<WaitAsked> long_waits_;  // of the thread that beats, with the next three
  std::vector<OverdueAsked> overdue_;
  std::uint64_t calls_seen_ = 0;
  unsigned beats_ = 0;
  std::atomic<const char*> outer_call_{nullptr};
  std::atomic<std::int64_t> outer_since_{0};

  /// In the order in which they were made; a rank may have several handles of one.
  using GroupKey = std::pair<std::uint64_t, const GroupState*>;
  static GroupKey key_of(const GroupState& group) { return {group.membership().uid, &group}; }
  /// Calls `visit` for each group with this number. Under the lock.
  template <class Visit>
  void visit_known(std::uint64_t uid, Visit visit) const {
    for (auto known = known_groups_.lower_bound({uid, nullptr});
         known != known_groups_.end() && known->first.first == uid; ++known)
      visit(*known->second);
  }
  mutable std::mutex known_mutex_;  // guards the next two; held for moments only
  std::map<GroupKey, GroupState*> known_groups_;
  RecentMap<std::uint64_t, GroupState::Failure> early_aborts_{control::most_remembered};
  struct Seen {
    GroupState::Failure failure;
    std::uint64_t calls = 0;  ///< of this rank, until then
  };
  bool has_gone_on_after(const Seen& seen) const;
  Seen seen_now(const GroupState::Failure& failure) const;
  mutable std::mutex failure_mutex_;  // guards the next two
  Seen first_failure_;
  Seen failed_message_;

  std::mutex groups_mutex_;
  std::uint64_t next_uid_ = 0;
  std::map<GroupKey, std::weak_ptr<GroupState>> groups_;
  ProcessGroup default_group_;
  std::unique_ptr<GroupMaker> maker_;
  std::atomic<bool> failed_{false};
  std::atomic<bool> leaving_{false};
  std::atomic<bool> destroyed_{false};
  std::atomic<bool> copied_{false};
  // In a child the world has ended, for all who ask.
  ForkWatch fork_watch_{[this] {
    copied_.store(true, std::memory_order_relaxed);
    destroyed_.store(true, std::memory_order_relaxed);
  }};
};

}  // namespace hymn::detail
