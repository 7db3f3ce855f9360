// Groups by tag and ranks.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/patience.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn::detail {

/// Every group has a tag: what the program says, or one made of its uid, which no other group has.
/// That of all ranks has "". Any thread may call anything.
class TaggedGroups {
 public:
  using Group = std::shared_ptr<GroupState>;

  /// What tags that are made of uids begin with.
  static constexpr std::string_view automatic = "hymn:";
  static std::string tag_of(std::uint64_t uid);
  /// Those of the groups of meshes, which are asked for by them.
  static constexpr std::string_view of_meshes = "hymn:mesh:";

  static bool is_automatic(std::string_view tag) {
    return tag.starts_with(automatic) && !tag.starts_with(of_meshes);
  }

  void enter(const Group& group);
  /// It has ended.
  void forget(const GroupState& group);
  /// All have ended.
  void clear();
  /// From now on it lives until it is destroyed or its world ends, with or without handles.
  void keep(const Group& group);
  /// The one that lives, the latest if there are several; null: there is none. `ranks` ascend, and
  /// the group may have them in any order.
  Group find(std::string_view tag, std::span<const int> ranks);
  /// The same, with its members in the order of `ranks`; if there is none, what `make` returns,
  /// which lives from then on until it is destroyed or its world ends, with or without handles. Of
  /// several threads that ask for the same at a time one makes it, and the others have patience.
  /// UsageError: a callback asks for what its own thread is making.
  Group find_or_make(const std::string& tag, const std::vector<int>& ranks,
                     const Patience& patience, const std::function<Group()>& make);

 private:
  struct Entry {
    const GroupState* group;
    std::weak_ptr<GroupState> living;
    Group kept{};  ///< null: it ends with its last handle
  };
  using Name = std::pair<std::string, std::vector<int>>;
  using Makers = std::map<Name, std::thread::id>;

  /// `seen` are to be let go of without the lock: each may be the last handle of its group.
  /// The latest whose members `fits` says are the right ones.
  template <class Fits>
  Group find_locked(std::string_view tag, std::vector<Group>& seen, Fits fits);

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::map<std::string, std::vector<Entry>, std::less<>> entries_;  ///< by tag, the latest last
  Makers making_;
};

}  // namespace hymn::detail
