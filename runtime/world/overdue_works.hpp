// Operations whose limit has passed while nobody moves them forward: the groups of those for which
// a member is missing are given up.
#pragma once

#include <optional>
#include <vector>

#include "runtime/world/known_groups.hpp"

namespace hymn::detail {

/// Of the thread that beats.
class OverdueWorks {
 public:
  OverdueWorks(WorldContext& world, const KnownGroups& groups) : world_(world), groups_(groups) {}

  void look();

 private:
  /// A work whose limit has passed, of which the others were asked.
  struct Asked {
    ProgressEngine::Overdue work;
    Inquiry about{};
    std::optional<std::uint64_t> question{};  ///< none: there is nobody to ask
    int beats = 0;                            ///< since then
  };
  Asked ask_about(const ProgressEngine::Overdue& work);
  /// True: all is done about it.
  bool look_after(Asked& asked);
  /// The oldest of its group from collective `first` on.
  void give_up(const Asked& asked, std::uint64_t first, std::vector<ProgressReport> reports);

  WorldContext& world_;
  const KnownGroups& groups_;
  std::vector<Asked> overdue_;
};

}  // namespace hymn::detail
