// What carries the messages of the control plane for one rank of a world.
#pragma once

#include <set>
#include <span>
#include <vector>

#include "control/agent.hpp"
#include "hymn/store.hpp"
#include "recorder/recorder_memory.hpp"

namespace hymn {

/// A rank on this host.
struct LocalRank {
  int rank = 0;
  int pid = 0;
  bool in_sight = false;  ///< the number means the same process here
};

/// What is known of the ranks of a world when its control plane begins.
struct ControlSite {
  int rank = 0;
  int size = 1;
  bool one_host = true;
  std::vector<LocalRank> here{};    ///< this one among them
  std::vector<int> coordinators{};  ///< the ranks that run the coordinator, one after the other
  std::string secret{};             ///< what rank 0 has drawn
  /// How others on this host find what this rank records.
  std::optional<MemoryKey> recorder{};
  /// The same for ranks that are threads of this process.
  SharedRecord shared_record{};
};

/// Made once for a world. The calls come in this order, from one thread, but for post().
class ControlPlane {
 public:
  ControlPlane() = default;
  ControlPlane(const ControlPlane&) = delete;
  ControlPlane& operator=(const ControlPlane&) = delete;
  virtual ~ControlPlane() = default;

  /// On rank 0, before anything else: the secret of this job.
  virtual std::string draw_secret() { return {}; }
  /// What this rank tells all others, for open().
  virtual Bytes offer(const ControlSite&) { return {}; }
  /// What the thread of a control plane calls, where it has one.
  struct Calls {
    std::function<std::vector<GroupMark>()> marks{};  ///< how far this rank is
    std::function<void()> beat{};                     ///< several times a second
    /// The same, of processes; while it returns true it is called again soon, too.
    std::function<bool()> move{};
  };
  /// With what each rank has offered. From now on messages come.
  virtual void open(std::shared_ptr<control::Agent> agent, std::span<const Bytes> offers,
                    Calls calls) = 0;
  /// To the coordinator. Never blocks; any thread.
  virtual void post(const control::Message& message) = 0;
  /// Waits, for half a second at most, until what was posted has been passed on to all ranks that
  /// are alive. From the thread of the control plane it does nothing.
  virtual void flush() {}
  /// One that all ranks of this process share; null: they are processes.
  virtual std::shared_ptr<Store> shared_store() { return nullptr; }
  /// What another rank has recorded, dead or alive; null where that cannot be read.
  virtual const PeerRecorder* recorder_of(int /*rank*/) const { return nullptr; }
  /// What another rank records now; nothing where that cannot be read.
  virtual std::optional<RecorderView> view_of(int rank) const {
    const PeerRecorder* const recorder = recorder_of(rank);
    return recorder == nullptr ? std::nullopt : std::optional(recorder->view());
  }
  /// The last thing: what was posted before still goes out.
  virtual void close() = 0;
};

}  // namespace hymn
