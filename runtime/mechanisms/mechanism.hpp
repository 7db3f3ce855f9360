// A way to move data that groups can use: each one gives a group its candidates.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <typeindex>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "base/meeting.hpp"
#include "base/paths.hpp"
#include "collectives/algorithm.hpp"
#include "collectives/dispatch/locate.hpp"
#include "hymn/error.hpp"
#include "hymn/process_group.hpp"
#include "p2p/transports.hpp"
#include "topology/placement.hpp"

namespace hymn {

class TuningTable;

/// The path setting of a group with these options; `world` is that of groups that do not say.
/// Whether ranks outside of the group hear nothing of it.
inline bool members_alone(const GroupOptions& options) {
  return options.local_sync || !options.tag.empty();
}

inline PathPolicy policy_of(const GroupOptions& options, const PathPolicy& world) {
  return options.path.empty() ? world : PathPolicy::parse(options.path, "GroupOptions.path");
}

/// How a world ends.
enum class WorldEnd : unsigned char {
  clean,     ///< all ranks are here, and nothing has gone wrong on any of them
  littered,  ///< the same, but somebody has not received, or not called, what others have
  together,  ///< all ranks are here
  apart,     ///< some rank may be missing, or busy elsewhere
};

/// A group while it is made: what mechanisms are told of it, and what they give it. They are asked
/// in order of preference, and may use what those before them gave.
/// What a member has said; it stays until the group is open.
using Word = std::span<const std::byte>;

struct NewGroup {
  const Membership& membership;
  GroupShape shape;
  std::shared_ptr<Exchange> exchange;  ///< of the group alone
  Patience patience{};                 ///< for what may block
  Transports transports;               ///< by what each member is reached with messages
  Algorithms algorithms{};
  const GroupOptions& options;
  const Logger& logger;
  /// Ends the process: a call of another library, which only this thread may make, never returns.
  std::function<void(const Error& why)> end_process{};
  DeviceReach reach{};  ///< what its candidates can do on GPUs
  /// Of candidates that have others carry a part of what they do: told, when all are known, who
  /// chooses among them. They and the chooser live and end together.
  std::vector<std::function<void(AlgorithmPicker)>> want_picker{};

  /// What a mechanism leaves to those that come after it, and to the group, one of each type.
  template <class T>
  void give(std::shared_ptr<T> gift) {
    gifts[typeid(T)] = std::move(gift);
  }
  /// Null: nobody has left one.
  template <class T>
  std::shared_ptr<T> given() const {
    const auto found = gifts.find(typeid(T));
    return found == gifts.end() ? nullptr : std::static_pointer_cast<T>(found->second);
  }
  std::map<std::type_index, std::shared_ptr<void>> gifts{};
};

/// All members have found it in what one of them offered: they end the group alike.
class AgreedUsageError : public UsageError {
 public:
  using UsageError::UsageError;
};

/// Made once for a world, in order of preference. Its calls are made by one thread at a time.
class Mechanism {
 public:
  Mechanism() = default;
  Mechanism(const Mechanism&) = delete;
  Mechanism& operator=(const Mechanism&) = delete;
  virtual ~Mechanism() = default;

  /// The ranks have met, and know where they are. Called once, before any group is made.
  virtual void placed(const JobMap&) {}
  /// What has been measured on these machines; null: nothing. Called once, after placed().
  virtual void measured(const std::shared_ptr<const TuningTable>&) {}
  /// What this rank has to say to the other members of a group that is about to be made.
  virtual Bytes offer(const Membership&, const GroupOptions&) { return {}; }
  /// What it says when it has heard what all members offered; it may wait for what another member
  /// does for up to `patience`. Never throws: what fails is said.
  virtual Bytes answer(const Membership&, std::span<const Word> /*offers*/, Duration /*patience*/) {
    return {};
  }
  /// Where what the members have offered changes what the planner is to know of them; it comes out
  /// the same on all.
  virtual void adjust(GroupLayout&, std::span<const Word> /*offers*/) const {}
  /// Adds the candidates of a new group; every member calls it at the same point, with what each
  /// member offered and answered, and all members are known to be there.
  virtual void open(NewGroup& group, std::span<const Word> offers,
                    std::span<const Word> answers) = 0;
  /// On a rank that is no member: others make this group, and may need this rank for it.
  virtual void stand_by(const Membership&, const GroupOptions&, const Patience&) {}
  /// The group has ended on this rank; `clean` when nothing of it can be in flight any more. Called
  /// before the candidates are destroyed. Local.
  virtual void close(const Membership&, bool /*clean*/) {}

  /// Called a few times a second by the thread of the control plane, where there is one, and
  /// whatever other threads do: moves what would wait for this rank's next call. `is_dead` tells
  /// whose process has ended. Whether it is to be called again soon.
  virtual bool move(const std::function<bool(int rank)>& /*is_dead*/) { return false; }

  /// Whether may_drive() can ever be false.
  virtual bool has_gate() const { return false; }
  /// Whether this thread may move operations forward now; require_drive() throws UsageError if not.
  virtual bool may_drive() const { return true; }
  virtual void require_drive() const {}
  /// Whether two threads of this process may call at the same time.
  virtual bool calls_may_overlap() const { return true; }
  /// Whether threads may call that the application knows nothing of.
  virtual bool serves_own_threads() const { return true; }
  /// Whether a thread may be left in a blocking call of the mechanism.
  virtual bool may_block() const { return true; }
  /// For people: the library behind it, and how it was set up; empty: there is nothing to say.
  virtual std::string description() const { return {}; }
  /// Whether ranks must wait for each other before the last trace of their world is removed.
  virtual bool ends_together() const { return false; }
  /// All groups have ended. Of all ranks together the sum is 0 where none has left anything behind
  /// that another has not received, or not taken part in.
  virtual std::uint64_t left_over() { return 0; }
  /// Messages that it has dropped: nobody could receive them any more.
  virtual std::uint64_t dropped_messages() const { return 0; }
  /// What is known to be wrong with the way to this rank, for people; empty: nothing.
  virtual std::string trouble_with(int /*rank*/) const { return {}; }
  virtual void shut_down(WorldEnd) {}
};

}  // namespace hymn
