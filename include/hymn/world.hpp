// The ranks of a job, and the beginning and end of everything else.
#pragma once

#include "hymn/standard.hpp"  // first

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hymn/exchange.hpp"
#include "hymn/future.hpp"
#include "hymn/process_group.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn {

class Store;

namespace detail {
class WorldState;
}

struct WorldOptions {
  /// Default of all groups, and of the world's store; unset: HYMN_TIMEOUT, or else what suits the
  /// group (GroupOptions::timeout), and 30 minutes for the store.
  Timeout timeout{};
  /// For creating the world, groups and the store; unset: HYMN_INIT_TIMEOUT, else as `timeout`, or
  /// 30 minutes.
  Timeout init_timeout{};
  /// A thread that moves asynchronous operations forward while the application computes. Unset:
  /// HYMN_PROGRESS_THREAD. Over MPI it needs MPI_THREAD_MULTIPLE.
  std::optional<bool> progress_thread{};
  /// The least level of threads that MPI is asked for where hymn initialises it, and that it must
  /// have granted: else making the World throws UsageError. More than one thread that uses groups
  /// needs ThreadLevel::serialized; groups that are made in the background, or by several threads
  /// at the same time, and ranks that shall go on when one of them dies while they make a group
  /// need ThreadLevel::multiple. Unset: HYMN_MPI_THREAD_LEVEL, or else what progress_thread needs,
  /// and no more: higher levels make each call of MPI slower, the program's own, too.
  std::optional<ThreadLevel> thread_level{};
  /// As HYMN_PATH; empty: HYMN_PATH.
  std::string path{};
  /// As HYMN_ALGO; empty: HYMN_ALGO.
  std::string algo{};
  /// As HYMN_REPRODUCIBLE; unset: HYMN_REPRODUCIBLE.
  std::optional<Reproducibility> reproducibility{};
  /// As HYMN_CHECKS, the same on all ranks; unset: HYMN_CHECKS.
  std::optional<CheckLevel> checks{};
  /// Whether operations are counted, for World::metrics(); they are anyway where HYMN_METRICS names
  /// a file.
  bool metrics = false;
};

/// The machines of a fake world, all of one kind. With neither file nor description: machines like
/// this one (or as HYMN_TOPOLOGY_FILE has it).
struct FakeTopology {
  std::string file{};        ///< of one host: hwloc's XML, or hymn's JSON
  std::string synthetic{};   ///< or as hwloc describes one: "pack:2 numa:1 core:8 pu:2"
  int hosts = 1;             ///< filled one after the other, as evenly as can be
  bool round_robin = false;  ///< or one rank to each host in turn
};

/// The operations of one kind over one path on this rank since the world was made.
struct OperationMetrics {
  std::string path;  ///< "mpi", "shm", …
  OpType type = OpType::barrier;
  std::uint64_t operations = 0;  ///< that have ended, successfully or not
  std::uint64_t failures = 0;    ///< of these
  std::uint64_t bytes = 0;       ///< what this rank sent; what it received, where it sent nothing
  Duration total{0};             ///< from call, or start, to end; all operations added up
  Duration waiting{0};           ///< of that: in which a thread was blocked in a call or in wait()
};

/// What a flight record tells.
struct RecordOptions {
  bool collectives = true;   ///< the calls themselves, not only the groups
  bool only_active = false;  ///< of the calls only those that have not ended
  bool symbols = true;       ///< names and source lines of call sites, which takes a while to find
};

/// All ranks of a job. Every rank makes its World at the same point of its program; several may
/// exist, one after the other or at the same time. Movable; not thread-safe itself (its groups
/// are).
///
/// "Global rank" means the rank in the communicator or Exchange that the World was made from.
class HYMN_API World {
 public:
  /// From MPI_COMM_WORLD. MPI is initialised if nobody has done so; only then will hymn finalize
  /// it, at the end of the process. Throws ConfigError for a bad HYMN_* variable, and when the
  /// launcher has started more ranks than MPI can see. With HYMN_BOOTSTRAP=environment, as `hymn
  /// run` has it, over exchange_from_environment() (hymn/rendezvous.hpp), and without MPI.
  explicit World(const WorldOptions& options = {});

  /// From anything that can carry small messages; MPI is neither needed nor touched.
  static World over(std::shared_ptr<Exchange> exchange, const WorldOptions& options = {});

  /// Rank `rank` of a world of `size` ranks of which no other is there: programs run alone, for
  /// planning, capture and tests without a job. All calls return at once, and are recorded,
  /// explained (with what processes over MPI would take on these machines) and captured as ever;
  /// nothing is sent. Every other rank is taken to say and give what this one does, and a
  /// reduction's result is one such input; buffers that a root or a sender elsewhere would fill
  /// stay as they are. Buffers in the memory of GPUs, MPI's types and shrink() are refused.
  /// Throws UsageError for ranks and hosts that cannot be, ConfigError for a machine that cannot be
  /// read.
  static World fake(int size, int rank, const FakeTopology& topology = {},
                    const WorldOptions& options = {});

  /// The world of the rank whose thread this is: for callbacks that are given none, such as a
  /// backward pass, and for hooks that run on it, until it has ended. A rank's thread is the one on
  /// which run_ranks has called its function. Throws UsageError on any other, a progress thread's
  /// too.
  static World& current();

  explicit World(std::shared_ptr<detail::WorldState> state);
  World(World&&) noexcept;
  World& operator=(World&&) noexcept;
  /// As destroy(); whatever goes wrong then is logged, not thrown.
  ~World();

  int rank() const;
  int size() const;
  /// This rank's place among the ranks of its host, and how many those are.
  int local_rank() const;
  int local_size() const;
  /// The number of hosts.
  int host_count() const;
  /// This rank's GPU, as CUDA numbers GPUs in this process (for cudaSetDevice); -1: it has none.
  int gpu() const;
  /// The machines of the job and where its ranks are, as JSON (docs/topology.md tells the format):
  /// every host in summary, the ranks of this rank's host one by one. Local.
  std::string topology_json() const;

  /// The group of all ranks.
  ProcessGroup& group();

  /// A group of the given global ranks (sorted; [3,1] becomes [1,3]). Every rank of the world calls
  /// it with the same ranks, in the same order as other calls of new_group; ranks outside the list
  /// get a non-member group. The same ranks twice give two independent groups. Throws UsageError
  /// for an empty list, a rank twice or out of range, or when the members' arguments differ;
  /// TimeoutError when a member does not arrive.
  ///
  /// With GroupOptions::local_sync only the members call it, and wait for each other: in any order
  /// relative to calls for other groups in which no circle of ranks waits for each other, and from
  /// several threads where threads may call. A rank outside gets an empty handle
  /// (ProcessGroup::valid() is false). Calls with the same ranks count one by one.
  ///
  /// With GroupOptions::tag, too, only the members wait for each other. Where there is a group of
  /// these ranks with this tag it is that; it lives, with or without handles, until it is destroyed
  /// or the world ends. Its members destroy it before any of them asks for another.
  ProcessGroup new_group(std::span<const int> ranks, const GroupOptions& options = {});
  ProcessGroup new_group(std::initializer_list<int> ranks, const GroupOptions& options = {}) {
    return new_group(std::span<const int>(ranks.begin(), ranks.size()), options);
  }

  /// As new_group(), without waiting for the other members: the group is made by a hymn thread,
  /// after all that were asked for before; those that members make alone (GroupOptions::local_sync,
  /// GroupOptions::tag) beside each other, in no order. All other calls of both kinds count as
  /// calls of new_group in the order that all ranks must keep; ranks may differ in the kind.
  /// Arguments that are wrong by themselves are thrown here, everything else by the future, within
  /// the time that making a group may take (GroupOptions::init_timeout). A continuation must not
  /// end the world. Over MPI below MPI_THREAD_MULTIPLE there is no such thread: the group is made
  /// before this returns.
  Future<ProcessGroup> new_group_async(std::span<const int> ranks,
                                       const GroupOptions& options = {});
  Future<ProcessGroup> new_group_async(std::initializer_list<int> ranks,
                                       const GroupOptions& options = {}) {
    return new_group_async(std::span<const int>(ranks.begin(), ranks.size()), options);
  }

  /// group().split().
  ProcessGroup split(int color, int key = 0, const GroupOptions& options = {}) {
    return group().split(color, key, options);
  }

  /// The group with this tag and these ranks, in any order, that lives on this rank, the latest if
  /// there are several; an empty handle if there is none. ("", all ranks) is the group of all.
  /// Local. Throws UsageError as new_group() does for the ranks.
  ProcessGroup find_group(std::string_view tag, std::span<const int> ranks);
  ProcessGroup find_group(std::string_view tag, std::initializer_list<int> ranks) {
    return find_group(tag, std::span<const int>(ranks.begin(), ranks.size()));
  }

  /// Of `flat_ranks`, which are groups of `group_size` ranks one after the other, the group that
  /// this rank is in: the one that find_group() knows, else a new one with this tag, made by its
  /// members alone. Throws UsageError when the ranks are no such groups, or this rank is in none,
  /// or there is none and the tag is empty; otherwise as new_group().
  ProcessGroup find_or_create_group(std::string_view tag, std::span<const int> flat_ranks,
                                    std::size_t group_size, const GroupOptions& options = {});
  ProcessGroup find_or_create_group(std::string_view tag, std::initializer_list<int> flat_ranks,
                                    std::size_t group_size, const GroupOptions& options = {}) {
    return find_or_create_group(tag, std::span<const int>(flat_ranks.begin(), flat_ranks.size()),
                                group_size, options);
  }

  /// The world's own store, for what ranks tell each other under keys. Its timeout() is the
  /// world's. All ranks call it; the first call of each waits for the others, within the limit on
  /// making groups. Ranks that are threads share memory, processes reach rank 0 over TCP
  /// (HYMN_INTERFACE), where the values are kept until that rank's world ends. Throws StoreError
  /// where rank 0 can serve none, TimeoutError when a rank does not come, NetworkError; UsageError
  /// in a callback whose thread waits for the store already, and where the world is destroyed
  /// meanwhile. Who got another error than these two may call again.
  std::shared_ptr<Store> store();

  /// What the flight recorder knows on this rank, as JSON (docs/flight-recorder.md tells the
  /// format): the groups, and the last HYMN_RECORDER_SIZE calls. Local. Any thread may ask at any
  /// time, also while others are stuck in calls, and after destroy().
  std::string flight_record(const RecordOptions& options = {}) const;
  /// Where HYMN_DUMP says where: writes the file of this rank, and asks all other ranks to write
  /// theirs, which they do soon, whatever call they are in. From any thread.
  void dump(const std::string& reason = "asked for by the program");
  /// As HYMN_RECORDER_TIMING=1 for operations that start from now on: the flight recorder keeps
  /// when they started, and how long they took.
  void enable_timing();

  /// What this rank has done so far, by path and operation (docs/metrics.md); empty unless metrics
  /// are on. Local. Any thread may ask at any time.
  std::vector<OperationMetrics> metrics() const;
  /// Messages that came to this rank when their group had ended, or gone on without them: they were
  /// dropped. Counted with or without metrics.
  std::uint64_t dropped_messages() const;
  /// The same as JSON, and as Prometheus reads it.
  std::string metrics_json() const;
  std::string metrics_prometheus() const;

  /// Ends all groups as ProcessGroup::destroy does, then the world. Any use afterwards is an error;
  /// a new World may be made in the same process. Throws the first error with which a group has
  /// ended, when all has ended; UsageError in a callback, where nothing has.
  void destroy();
  bool is_destroyed() const;

 private:
  friend class detail::WorldState;
  std::shared_ptr<detail::WorldState> state_;
};

}  // namespace hymn
