#include "hymn/mesh.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "runtime/world/world_state.hpp"

namespace hymn {
namespace {

std::vector<int> ranks_or_all(std::vector<int> ranks, const World& world) {
  if (!ranks.empty()) return ranks;
  ranks.resize(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void check_shape(std::size_t ranks, const std::vector<std::size_t>& shape) {
  // Divided, as a product might wrap.
  std::size_t rest = ranks;
  bool fits = !shape.empty() && ranks != 0;
  for (const std::size_t size : shape) {
    fits = fits && size != 0 && rest % size == 0;
    if (fits) rest /= size;
  }
  if (!fits || rest != 1)
    throw UsageError(
        fmt::format("{} ranks do not make a mesh of {}", ranks,
                    shape.empty() ? "no dimensions" : fmt::format("{}", fmt::join(shape, " x "))),
        {.operation = "Mesh"});
}

void check_names(const std::vector<std::string>& names, std::size_t dimensions) {
  if (names.empty()) return;
  if (names.size() != dimensions)
    throw UsageError(fmt::format("{} names are given for {} dimensions", names.size(), dimensions),
                     {.operation = "Mesh"});
  std::vector<std::string> all = names;
  std::ranges::sort(all);
  if (all.front().empty() || std::ranges::adjacent_find(all) != all.end())
    throw UsageError(
        fmt::format("the names ['{}'] are not different from each other, or one is empty",
                    fmt::join(names, "', '")),
        {.operation = "Mesh"});
}

std::vector<int> place_of(std::size_t index, const std::vector<std::size_t>& shape) {
  std::vector<int> place(shape.size());
  for (std::size_t d = shape.size(); d-- > 0; index /= shape[d])
    place[d] = static_cast<int>(index % shape[d]);
  return place;
}

}  // namespace

Mesh::Mesh(World& world, std::vector<std::size_t> shape, std::vector<std::string> names,
           std::vector<int> ranks)
    : world_(detail::WorldState::of(world).shared_from_this()),
      ranks_(ranks_or_all(std::move(ranks), world)),
      shape_(std::move(shape)),
      names_(std::move(names)),
      dimensions_(shape_.size()) {
  check_shape(ranks_.size(), shape_);
  check_names(names_, shape_.size());
  std::iota(dimensions_.begin(), dimensions_.end(), std::size_t{0});
  root_ = world_->groups().name_mesh(ranks_, shape_);
  const auto own = std::ranges::find(ranks_, world.rank());
  if (own != ranks_.end())
    place_ = place_of(static_cast<std::size_t>(own - ranks_.begin()), shape_);
}

std::size_t Mesh::dimension(std::string_view name) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end())
    throw UsageError(
        std::ranges::all_of(names_, &std::string::empty)
            ? fmt::format("there is no dimension '{}': those of the mesh have no names", name)
            : fmt::format("the mesh has no dimension '{}', only ['{}']", name,
                          fmt::join(names_, "', '")),
        {.operation = "Mesh", .remedy = "give names when the mesh is made, and one of them here"});
  return static_cast<std::size_t>(found - names_.begin());
}

std::size_t Mesh::only_dimension() const {
  if (shape_.size() != 1)
    throw UsageError(
        fmt::format("Only 1D mesh is one group: this one has {} dimensions", shape_.size()),
        {.operation = "Mesh", .remedy = "say which dimension is meant"});
  return 0;
}

void Mesh::require_dimension(std::size_t dimension) const {
  if (dimension >= shape_.size())
    throw UsageError(fmt::format("dimension {} of a mesh that has {}", dimension, shape_.size()),
                     {.operation = "Mesh"});
}

void Mesh::require_place() const {
  if (place_.empty())
    throw UsageError(
        fmt::format("this rank is not part of the mesh of ranks [{}]", fmt::join(ranks_, ", ")),
        {.rank = world_->context().rank(), .operation = "Mesh"});
}

int Mesh::rank(std::size_t dimension) const {
  require_dimension(dimension);
  return place_.empty() ? -1 : place_[dimension];
}

std::vector<int> Mesh::group_ranks(std::size_t dimension) const {
  require_dimension(dimension);
  require_place();
  std::vector<int> ranks;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    std::vector<int> place = place_of(i, shape_);
    place[dimension] = place_[dimension];
    if (place == place_) ranks.push_back(ranks_[i]);
  }
  return ranks;
}

std::string Mesh::tag(std::size_t dimension) const {
  require_dimension(dimension);
  require_place();
  return fmt::format("{}:{}", root_, dimensions_[dimension]);
}

ProcessGroup Mesh::group(std::size_t dimension) const {
  const std::vector<int> ranks = group_ranks(dimension);
  return world_->groups().find_or_create(tag(dimension), ranks, ranks.size(), {});
}

Mesh Mesh::sub_mesh(std::span<const std::string> names) const {
  require_place();
  if (names.empty()) throw UsageError("a sub-mesh needs a dimension", {.operation = "Mesh"});
  Mesh part;
  part.world_ = world_;
  part.root_ = root_;
  std::vector<bool> stays(shape_.size(), false);
  for (const std::string& name : names) {
    if (stays[dimension(name)])
      throw UsageError(fmt::format("the dimension '{}' is given twice", name),
                       {.operation = "Mesh", .remedy = "give each dimension once"});
    stays[dimension(name)] = true;
  }
  for (std::size_t d = 0; d < shape_.size(); ++d) {
    if (!stays[d]) continue;
    part.shape_.push_back(shape_[d]);
    part.names_.push_back(names_[d]);
    part.dimensions_.push_back(dimensions_[d]);
    part.place_.push_back(place_[d]);
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    std::vector<int> place = place_of(i, shape_);
    for (std::size_t d = 0; d < shape_.size(); ++d)
      if (stays[d]) place[d] = place_[d];
    if (place == place_) part.ranks_.push_back(ranks_[i]);
  }
  return part;
}

// --- What names a group

ExpandedGroup expand_group(std::span<const int> ranks, std::string_view tag) {
  return {std::string(tag), {ranks.begin(), ranks.end()}, ranks.size()};
}

ExpandedGroup expand_group(std::span<const std::vector<int>> rows, std::string_view tag) {
  ExpandedGroup groups{
      .tag = std::string(tag), .ranks = {}, .size = rows.empty() ? 0 : rows[0].size()};
  for (const std::vector<int>& row : rows) {
    if (row.size() != groups.size)
      throw UsageError(
          fmt::format("group sizes must be identical: {} and {} ranks", groups.size, row.size()),
          {.operation = "expand_group"});
    groups.ranks.insert(groups.ranks.end(), row.begin(), row.end());
  }
  return groups;
}

ExpandedGroup expand_group(const ProcessGroup& group, std::string_view tag) {
  const Membership& membership = group.membership();
  return {tag.empty() ? membership.tag : std::string(tag), membership.ranks,
          membership.ranks.size()};
}

ExpandedGroup expand_group(const Mesh& mesh) { return expand_group(mesh, mesh.only_dimension()); }

ExpandedGroup expand_group(const Mesh& mesh, std::string_view dimension, std::string_view tag) {
  return expand_group(mesh, mesh.dimension(dimension), tag);
}

ExpandedGroup expand_group(const Mesh& mesh, std::size_t dimension, std::string_view tag) {
  std::vector<int> ranks = mesh.group_ranks(dimension);
  const std::size_t size = ranks.size();
  return {tag.empty() ? mesh.tag(dimension) : std::string(tag), std::move(ranks), size};
}

}  // namespace hymn
