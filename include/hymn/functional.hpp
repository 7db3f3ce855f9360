// Functional collectives: out of place, on arrays, as torch.distributed._functional_collectives and
// JAX have them: docs/functional.md. They belong to libhymn-functional (hymn::functional).
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hymn/array.hpp"
#include "hymn/described.hpp"
#include "hymn/export.hpp"
#include "hymn/mesh.hpp"
#include "hymn/op_type.hpp"
#include "hymn/process_group.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn {

class World;

namespace functional {

/// The ranks between which a collective is made: a group; the group of this rank in a mesh; a list
/// of ranks; or rows of ranks, of which it is the one that this rank is in.
///
/// A value. It makes no group: a call on elements does so, where there is none yet, with all its
/// ranks (Mesh::group(), World::find_or_create_group()). The world must live as long.
class HYMN_API Where {
 public:
  Where(ProcessGroup group);  // NOLINT: it is one, as are the next
  /// A mesh of one dimension.
  Where(const Mesh& mesh);  // NOLINT
  Where(const Mesh& mesh, std::size_t dimension);
  Where(const Mesh& mesh, std::string_view dimension);
  /// By World::find_or_create_group(tag, …), which wants a tag where there is no such group yet.
  Where(World& world, std::vector<int> ranks, std::string_view tag = {});
  Where(World& world, std::vector<std::vector<int>> rows, std::string_view tag = {});
  /// What expand_group() has given, perhaps with another tag.
  static Where expanded(World& world, const ExpandedGroup& groups);
  /// Ranks without a world, for meta arrays alone; as one of them: the first, unless it is told.
  static Where ranks_alone(std::vector<int> ranks, std::string tag = {}, int rank = -1);

  /// Global ranks.
  const std::vector<int>& ranks() const { return ranks_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  /// With the ranks it says which group it is.
  const std::string& tag() const { return tag_; }
  /// This rank, in the world.
  int rank() const { return rank_; }
  bool has_this_rank() const { return has_this_rank_; }
  /// UsageError where there is no world.
  ProcessGroup group() const;

 private:
  Where() = default;
  void find_this_rank();

  std::vector<int> ranks_;
  std::string tag_;
  int rank_ = 0;
  bool has_this_rank_ = true;
  std::function<ProcessGroup()> find_;
};

/// "sum", "product", "min", "max", "avg", … by the names of ReduceKind; or a ReduceOp. UsageError
/// for a name that is none.
class HYMN_API Reduction {
 public:
  Reduction(const char* name);  // NOLINT: it is one, as are the next
  Reduction(std::string_view name);
  Reduction(ReduceOp op) : op_(op) {}  // NOLINT
  ReduceOp op() const { return op_; }

 private:
  ReduceOp op_;
};

/// The functions below, by their names.
enum class Operation : std::uint8_t {
  all_reduce,
  all_reduce_coalesced,
  all_gather_tensor,
  all_gather_into_tensor_coalesced,
  reduce_scatter_tensor,
  reduce_scatter_tensor_coalesced,
  broadcast,
  all_to_all_single,
  permute_tensor,
};

struct OperationTraits {
  std::string_view name{};
  OpType type = OpType::barrier;  ///< what the group carries out
  bool is_coalesced = false;
  bool has_dimension = false;  ///< one for each array
};

/// The rows of the table behind traits_of.
constexpr OperationTraits define(Operation operation) {
  switch (operation) {
    case Operation::all_reduce:
      return {.name = "all_reduce", .type = OpType::all_reduce};
    case Operation::all_reduce_coalesced:
      return {.name = "all_reduce_coalesced", .type = OpType::all_reduce, .is_coalesced = true};
    case Operation::all_gather_tensor:
      return {.name = "all_gather_tensor", .type = OpType::all_gather, .has_dimension = true};
    case Operation::all_gather_into_tensor_coalesced:
      return {.name = "all_gather_into_tensor_coalesced",
              .type = OpType::all_gather,
              .is_coalesced = true,
              .has_dimension = true};
    case Operation::reduce_scatter_tensor:
      return {
          .name = "reduce_scatter_tensor", .type = OpType::reduce_scatter, .has_dimension = true};
    case Operation::reduce_scatter_tensor_coalesced:
      return {.name = "reduce_scatter_tensor_coalesced",
              .type = OpType::reduce_scatter,
              .is_coalesced = true,
              .has_dimension = true};
    case Operation::broadcast:
      return {.name = "broadcast", .type = OpType::broadcast};
    case Operation::all_to_all_single:
      return {.name = "all_to_all_single", .type = OpType::all_to_all};
    case Operation::permute_tensor:
      return {.name = "permute_tensor", .type = OpType::all_to_all};
  }
  return {};
}
constexpr const OperationTraits& traits_of(Operation operation) noexcept {
  return hymn::detail::row_of(operation);
}
inline constexpr auto all_operations = hymn::detail::all_described<Operation>;

/// One call, without its arrays and its group: plain data.
struct Collective {
  Operation operation = Operation::all_reduce;
  ReduceOp reduction{};                                     ///< where it reduces
  std::vector<std::int64_t> dimensions{};                   ///< to gather or scatter: each array's
  int root = -1;                                            ///< broadcast: a global rank
  std::optional<std::vector<std::int64_t>> input_splits{};  ///< all_to_all_single: of dimension 0
  std::optional<std::vector<std::int64_t>> output_splits{};
  std::vector<int> destinations{};  ///< permute_tensor: by ranks of the group
};

/// What comes out of it; throws what the call would throw before anything is sent. No peers.
HYMN_API std::vector<ArraySpec> results_of(const Collective& collective,
                                           std::span<const ArraySpec> inputs, const Where& where);

/// The call. What it is given must stay as it is until somebody has looked at the result. The
/// results of one call are waited for together.
HYMN_API std::vector<Array> call(const Collective& collective, std::span<const Array> inputs,
                                 const Where& where, const CallOptions& options = {});

// --- Collectives. They return pending arrays in memory of their own; of meta arrays, meta arrays,
// without peers. Dimensions may be counted from the end. Arrays may lie in any way in the memory of
// the host; UnsupportedError for that of a GPU. UsageError for all that is wrong with a call,
// before anything is sent; otherwise as the calls of ProcessGroup, which they are.

/// The reduction of the arrays of all ranks.
HYMN_API Array all_reduce(const Array& array, Reduction reduction, const Where& where,
                          const CallOptions& options = {});
/// Several as one call, of one dtype.
HYMN_API std::vector<Array> all_reduce_coalesced(std::span<const Array> arrays, Reduction reduction,
                                                 const Where& where,
                                                 const CallOptions& options = {});
/// The arrays of all ranks, one after the other in that dimension.
HYMN_API Array all_gather_tensor(const Array& array, std::int64_t dimension, const Where& where,
                                 const CallOptions& options = {});
/// In dimension 0.
HYMN_API std::vector<Array> all_gather_into_tensor_coalesced(std::span<const Array> arrays,
                                                             const Where& where,
                                                             const CallOptions& options = {});
/// Of the reduction, this rank's part in that dimension, which has equal parts for all.
HYMN_API Array reduce_scatter_tensor(const Array& array, Reduction reduction,
                                     std::int64_t dimension, const Where& where,
                                     const CallOptions& options = {});
/// One dimension for each array.
HYMN_API std::vector<Array> reduce_scatter_tensor_coalesced(
    std::span<const Array> arrays, Reduction reduction, std::span<const std::int64_t> dimensions,
    const Where& where, const CallOptions& options = {});
/// The root's; `root` is a global rank. The others give an array of that shape and dtype.
HYMN_API Array broadcast(const Array& array, int root, const Where& where,
                         const CallOptions& options = {});

using Splits = std::optional<std::vector<std::int64_t>>;
/// Of dimension 0, input_splits[j] indices go to rank j of the group, and output_splits[i] come
/// from rank i, in the order of ranks. Without splits all parts are equal.
HYMN_API Array all_to_all_single(const Array& array, const Splits& output_splits,
                                 const Splits& input_splits, const Where& where,
                                 const CallOptions& options = {});
/// Rank i of the group sends its array to rank destinations[i], and all give the same shape.
HYMN_API Array permute_tensor(const Array& array, std::span<const int> destinations,
                              const Where& where, const CallOptions& options = {});
inline Array permute_tensor(const Array& array, std::initializer_list<int> destinations,
                            const Where& where, const CallOptions& options = {}) {
  return permute_tensor(array, std::span<const int>(destinations.begin(), destinations.size()),
                        where, options);
}

/// Waits for a pending array, and returns it: where a program wants to say when.
HYMN_API Array wait_tensor(const Array& array);

/// A step of the program's own between collectives, as it is captured (hymn/capture.hpp): makes an
/// array of others. It has ended when this returns; with a meta array among its inputs it does not
/// run, and its result is one, too.
using Step = std::function<void(std::span<const Array> inputs, const Array& result)>;
HYMN_API Array apply(std::string_view name, std::span<const Array> inputs, const ArraySpec& result,
                     const Step& step);
inline Array apply(std::string_view name, std::initializer_list<Array> inputs,
                   const ArraySpec& result, const Step& step) {
  return apply(name, std::span<const Array>(inputs.begin(), inputs.size()), result, step);
}

// --- With gradients. The functions above carry none.

/// The vector-Jacobian product of a collective, as data: another collective, which takes the
/// gradient of the result to that of the input.
class HYMN_API Vjp {
 public:
  Vjp(Collective backward, Where where, ArraySpec gradient)
      : backward_(std::move(backward)), where_(std::move(where)), gradient_(std::move(gradient)) {}

  const Collective& collective() const { return backward_; }
  const Where& where() const { return where_; }
  /// Of the gradient that it takes.
  const ArraySpec& gradient() const { return gradient_; }
  /// Makes that call, with all ranks; captured, it counts as one of the backward pass. Pending.
  Array operator()(const Array& gradient, const CallOptions& options = {}) const;

 private:
  Collective backward_;
  Where where_;
  ArraySpec gradient_;
};

struct Differentiable {
  Array result;
  Vjp vjp;
};

HYMN_API Differentiable all_to_all_single_autograd(const Array& array, const Splits& output_splits,
                                                   const Splits& input_splits, const Where& where,
                                                   const CallOptions& options = {});
HYMN_API Differentiable all_gather_tensor_autograd(const Array& array, std::int64_t dimension,
                                                   const Where& where,
                                                   const CallOptions& options = {});
/// Of sums alone: UnsupportedError otherwise.
HYMN_API Differentiable reduce_scatter_tensor_autograd(const Array& array, Reduction reduction,
                                                       std::int64_t dimension, const Where& where,
                                                       const CallOptions& options = {});

}  // namespace functional
}  // namespace hymn
