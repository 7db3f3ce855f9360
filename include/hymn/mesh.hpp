// Grids of ranks with a group for each dimension, and what names a group: a tag and ranks.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hymn/export.hpp"
#include "hymn/process_group.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn {

class World;
namespace detail {
class WorldState;
}

/// What a rank exchanges with its two neighbours in one dimension of a mesh: faces of what it has,
/// and the halos into which those of the neighbours come. A face without elements is sent, too, and
/// an empty halo has room for such a one. Empty ones are in the memory of the GPU where another of
/// the exchange is; where all are empty, `memory` says it.
struct Halo {
  std::size_t dimension = 0;
  ConstBufferView to_previous{};
  BufferView from_previous{};
  ConstBufferView to_next{};
  BufferView from_next{};
  bool periodic = false;  ///< the first and the last rank of the dimension are neighbours, too
};

/// A grid of ranks in any number of dimensions, which may have names:
/// Mesh(world, {2, 4}, {"dp", "tp"}).
///
/// The ranks that differ in one dimension alone are a group, which is made when all of them ask for
/// it, by them alone (GroupOptions::local_sync), and lives until it is destroyed or the world ends.
///
/// A value: copies are the same mesh. Meshes of the same ranks and shape are made in the same order
/// on all of these ranks; nothing is sent for that. Thread-safe.
class HYMN_API Mesh {
 public:
  /// `names` are for each dimension, or none. `ranks` are global ranks, the last dimension running
  /// fastest; none: all ranks in their order. Throws UsageError when the numbers do not match, a
  /// rank is given twice or out of range, a dimension has no ranks, or a name is empty or given
  /// twice.
  Mesh(World& world, std::vector<std::size_t> shape, std::vector<std::string> names = {},
       std::vector<int> ranks = {});

  const std::vector<int>& ranks() const { return ranks_; }
  const std::vector<std::size_t>& shape() const { return shape_; }
  const std::vector<std::string>& names() const { return names_; }
  /// UsageError: none has this name.
  std::size_t dimension(std::string_view name) const;

  /// This rank's place in each dimension; empty outside.
  const std::vector<int>& place() const { return place_; }
  /// This rank's place in that dimension; -1 outside. It is the rank in the group where the ranks
  /// of the mesh ascend: those of a group always do.
  int rank(std::size_t dimension) const;
  int rank(std::string_view name) const { return rank(dimension(name)); }
  /// In a mesh of one dimension.
  int rank() const { return rank(only_dimension()); }

  /// This rank's group in that dimension. All its ranks call it the first time. Throws UsageError
  /// outside; otherwise as World::new_group().
  ProcessGroup group(std::size_t dimension) const;
  ProcessGroup group(std::string_view name) const { return group(dimension(name)); }
  /// In a mesh of one dimension.
  ProcessGroup group() const { return group(only_dimension()); }

  /// As MPI_Cart_shift: the global rank that is so many places further in that dimension; nothing
  /// beyond the edge of one that is not periodic. Throws UsageError outside.
  std::optional<int> neighbour(std::size_t dimension, int distance, bool periodic = false) const;

  /// Exchanges faces with all neighbours, as one batch (docs/messages.md): all ranks of the mesh
  /// give the same dimensions in the same order. What a rank sends to its next one in a dimension
  /// comes into that one's from_previous, which has room for it, and the other way round; beyond an
  /// edge nothing is sent, and the halo stays as it is. A rank that is its own neighbour copies.
  /// The first call makes halo_group(), within the limit of the world's groups: `options` say
  /// nothing of that. An exchange that fails once it has started, on any rank, gives up
  /// halo_group(). Throws UsageError outside; otherwise as batch_isend_irecv().
  void exchange_halos(std::span<const Halo> halos, const CallOptions& options = {}) const;
  /// Only starts it. Work::statuses() tells what came, of each halo first from the next.
  Work exchange_halos_async(std::span<const Halo> halos, const CallOptions& options = {}) const;
  /// The group of all ranks of the mesh that carries the halos: for its limit, hooks and end. Made
  /// as those of the dimensions. When it was given up, all ranks destroy() it before the next
  /// exchange, which makes another.
  ProcessGroup halo_group() const;

  /// The part of the mesh in which this rank is that has these dimensions, in the mesh's order;
  /// its groups are those of this mesh. Local. Throws UsageError outside, and for a name given
  /// twice.
  Mesh sub_mesh(std::span<const std::string> names) const;
  Mesh operator[](const std::string& name) const { return sub_mesh(std::span(&name, 1)); }

  /// By which World::find_or_create_group() knows this rank's group in that dimension; and who is
  /// in it. UsageError outside.
  std::string tag(std::size_t dimension) const;
  std::vector<int> group_ranks(std::size_t dimension) const;

  /// UsageError: "Only 1D mesh …" when there are more dimensions.
  std::size_t only_dimension() const;

 private:
  Mesh() = default;
  void require_dimension(std::size_t dimension) const;
  void require_place() const;

  std::shared_ptr<detail::WorldState> world_;
  std::string root_;  ///< of which mesh this is a part
  std::vector<int> ranks_;
  std::vector<std::size_t> shape_;
  std::vector<std::string> names_;
  std::vector<std::size_t> dimensions_;  ///< of the root
  std::vector<int> place_;
};

/// Groups of equal size, and the tag by which World::find_or_create_group() finds that of the
/// caller.
struct ExpandedGroup {
  std::string tag;
  std::vector<int> ranks;  ///< of all groups, one after the other
  std::size_t size = 0;    ///< of each
};

/// What names these ranks, as one group or in rows; this group; or this rank's group in a mesh, in
/// its only dimension, or in the one that has this number or name. A tag that is not empty replaces
/// theirs: expand_group(mesh, 0, "pipeline"). Local. Throws UsageError: "group sizes must be
/// identical" for rows that differ, "Only 1D mesh …" for a mesh of several dimensions without one,
/// "… no dimension 'x'" for a name that none has.
HYMN_API ExpandedGroup expand_group(std::span<const int> ranks, std::string_view tag = {});
HYMN_API ExpandedGroup expand_group(std::span<const std::vector<int>> rows,
                                    std::string_view tag = {});
HYMN_API ExpandedGroup expand_group(const ProcessGroup& group, std::string_view tag = {});
HYMN_API ExpandedGroup expand_group(const Mesh& mesh);
HYMN_API ExpandedGroup expand_group(const Mesh& mesh, std::size_t dimension,
                                    std::string_view tag = {});
HYMN_API ExpandedGroup expand_group(const Mesh& mesh, std::string_view dimension,
                                    std::string_view tag = {});

}  // namespace hymn
