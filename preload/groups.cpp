#include "preload/groups.hpp"

#include <fmt/format.h>

#include <array>
#include <exception>
#include <set>
#include <utility>

namespace hymn::preload {

// The tag is nobody else's and never comes again, so each rank may do that when it likes.
SharedGroup::~SharedGroup() {
  if (!ends_with_leases) return;
  try {
    group.destroy();
  } catch (const std::exception&) {
    // The world ends it.
  }
}

// What some member has not, or has another one in the place of, nobody takes. The first rank gives
// a number by which those tell their groups apart that several threads make at the same time.
GroupLease Groups::take(MPI_Comm comm, const std::vector<int>& ranks) {
  GroupLease group = find(ranks);
  const std::int64_t own =
      group == nullptr ? 0 : static_cast<std::int64_t>(group->group.membership().uid) + 1;
  int rank = 0;
  PMPI_Comm_rank(comm, &rank);
  const std::array<std::int64_t, 3> said{own, -own, rank == 0 ? draw_number() : 0};
  std::array<std::int64_t, 3> most{};
  if (PMPI_Allreduce(said.data(), most.data(), said.size(), MPI_INT64_T, MPI_MAX, comm) !=
      MPI_SUCCESS)
    return nullptr;
  const bool is_that_of_all = most[0] != 0 && most[0] == -most[1];
  return is_that_of_all ? group : make_together(comm, ranks, most[2]);
}

GroupLease Groups::make_together(MPI_Comm comm, const std::vector<int>& ranks,
                                 std::int64_t number) {
  GroupLease group = make(ranks, number);
  const int lacks = group == nullptr ? 1 : 0;
  int one_lacks = 1;
  if (PMPI_Allreduce(&lacks, &one_lacks, 1, MPI_INT, MPI_MAX, comm) != MPI_SUCCESS ||
      one_lacks != 0)
    return nullptr;
  keep(ranks, group);
  return group;
}

std::int64_t Groups::draw_number() {
  const std::lock_guard lock(mutex_);
  return ++last_number_ * static_cast<std::int64_t>(hosts_.size()) + world_.rank();
}

std::size_t Groups::hosts_of(const std::vector<int>& ranks) const {
  std::set<int> hosts;
  for (const int rank : ranks) hosts.insert(hosts_[static_cast<std::size_t>(rank)]);
  return hosts.size();
}

GroupLease Groups::find(const std::vector<int>& ranks) {
  // Another thread must not find it free before it is taken.
  const std::lock_guard lock(mutex_);
  if (ranks.size() == hosts_.size() && is_free(all_)) return all_;
  const auto [first, last] = groups_.equal_range(ranks);
  for (auto found = first; found != last; ++found)
    if (is_free(found->second)) return found->second;
  return nullptr;
}

GroupLease Groups::make(const std::vector<int>& ranks, std::int64_t number) {
  GroupOptions options;
  options.local_sync = true;
  options.timeout = options.init_timeout = Timeout::none();
  if (may_overlap_) options.tag = fmt::format("preload {}", number);
  try {
    return std::make_shared<SharedGroup>(world_.new_group(ranks, options), may_overlap_);
  } catch (const std::exception&) {
    return nullptr;
  }
}

void Groups::keep(const std::vector<int>& ranks, const GroupLease& group) {
  std::vector<GroupLease> ended;  // outside of the lock
  const std::lock_guard lock(mutex_);
  // The others may not have what is free here, so nobody is to find it again.
  const auto [first, last] = groups_.equal_range(ranks);
  for (auto each = first; each != last;) {
    if (each->second.use_count() > 1) {
      ++each;
      continue;
    }
    ended.push_back(std::move(each->second));
    each = groups_.erase(each);
  }
  groups_.emplace(ranks, group);
  for (auto each = groups_.begin(); groups_.size() > most_kept && each != groups_.end();) {
    if (each->second.use_count() == 1) {
      ended.push_back(std::move(each->second));
      each = groups_.erase(each);
    } else {
      ++each;
    }
  }
}

}  // namespace hymn::preload
