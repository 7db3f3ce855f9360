#include <algorithm>
#include <span>
#include <string>

#include "functional/fail.hpp"
#include "hymn/functional.hpp"
#include "hymn/world.hpp"

namespace hymn::functional {
namespace {

/// Of rows of so many ranks, the one that this rank is in; the first, where it is in none.
std::span<const int> own_row(const ExpandedGroup& groups, int rank) {
  const std::span<const int> all(groups.ranks);
  for (std::size_t first = 0; first + groups.size <= all.size() && groups.size > 0;
       first += groups.size)
    if (std::ranges::find(all.subspan(first, groups.size), rank) !=
        all.subspan(first, groups.size).end())
      return all.subspan(first, groups.size);
  return all.first(std::min(groups.size, all.size()));
}

}  // namespace

Where::Where(ProcessGroup group) {
  const Membership& membership = group.membership();
  ranks_ = membership.ranks;
  tag_ = membership.tag;
  has_this_rank_ = group.is_member();
  rank_ = has_this_rank_ ? group.global_rank(group.rank()) : -1;
  find_ = [group = std::move(group)] { return group; };
}

Where::Where(const Mesh& mesh) : Where(mesh, mesh.only_dimension()) {}

Where::Where(const Mesh& mesh, std::string_view dimension)
    : Where(mesh, mesh.dimension(dimension)) {}

Where::Where(const Mesh& mesh, std::size_t dimension)
    : ranks_(mesh.group_ranks(dimension)), tag_(mesh.tag(dimension)) {
  // The ranks of the group are in the order of the mesh until it is made.
  rank_ = ranks_[static_cast<std::size_t>(mesh.rank(dimension))];
  std::ranges::sort(ranks_);
  find_ = [mesh, dimension] { return mesh.group(dimension); };
}

Where::Where(World& world, std::vector<int> ranks, std::string_view tag)
    : Where(expanded(world, expand_group(ranks, tag))) {}

Where::Where(World& world, std::vector<std::vector<int>> rows, std::string_view tag)
    : Where(expanded(world, expand_group(rows, tag))) {}

Where Where::expanded(World& world, const ExpandedGroup& groups) {
  Where where;
  where.rank_ = world.rank();
  const std::span<const int> row = own_row(groups, where.rank_);
  where.ranks_.assign(row.begin(), row.end());
  std::ranges::sort(where.ranks_);  // as groups that are made of ranks have them
  where.tag_ = groups.tag;
  where.find_this_rank();
  where.find_ = [&world, groups] {
    return world.find_or_create_group(groups.tag, groups.ranks, groups.size);
  };
  return where;
}

Where Where::ranks_alone(std::vector<int> ranks, std::string tag, int rank) {
  Where where;
  where.ranks_ = std::move(ranks);
  where.tag_ = std::move(tag);
  where.rank_ = rank == -1 && !where.ranks_.empty() ? where.ranks_.front() : rank;
  where.find_this_rank();
  return where;
}

void Where::find_this_rank() { has_this_rank_ = std::ranges::find(ranks_, rank_) != ranks_.end(); }

ProcessGroup Where::group() const {
  if (!find_)
    detail::refuse("Where::group", "the ranks " + detail::listed(ranks_) + " are of no world",
                   "such ranks are for meta arrays alone");
  return find_();
}

Reduction::Reduction(const char* name) : Reduction(std::string_view(name)) {}

Reduction::Reduction(std::string_view name) {
  for (const ReduceKind kind : all_reduce_kinds) {
    const bool needs_more =
        kind == ReduceKind::premul_sum || kind == ReduceKind::custom || kind == ReduceKind::opaque;
    if (to_string(kind) != name || needs_more) continue;
    op_ = ReduceOp::of(kind);
    return;
  }
  detail::refuse("Reduction", "there is no reduction '" + std::string(name) + "'",
                 "sum, product, min, max, band, bor, bxor, land, lor, lxor or avg; others are a "
                 "ReduceOp");
}

}  // namespace hymn::functional
