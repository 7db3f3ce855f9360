// The all_reduce of sparse tensors without who carries it: what one rank says, what travels then,
// and what comes of it.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "hymn/sparse.hpp"
#include "runtime/group/sparse_head.hpp"
#include "runtime/group/sparse_merge.hpp"

namespace hymn::detail {

/// Of one call. It keeps what the call was given, but for the values, and all memory that its
/// requests read or write: it stays where it is.
class SparseReduction {
 public:
  /// What is wrong with the tensor is kept, for the heads to tell.
  SparseReduction(const GroupState& group, const SparseView& tensor, const SparseOptions& options,
                  bool is_work);
  SparseReduction(const SparseReduction&) = delete;
  SparseReduction& operator=(const SparseReduction&) = delete;

  /// By which all learn what comes, and that it goes together.
  Request heads_request();
  /// After that: throws the same on all ranks where it does not.
  void require_agreement(const ErrorContext& context) const;
  /// Likewise: whether the rest must go by messages of this call alone, for a rank has a Work of
  /// it, and may make other calls first.
  bool goes_by_messages() const;
  /// What travels then: in any order, or at once.
  const std::vector<Request>& requests();
  /// After these.
  SparseTensor result();

 private:
  SparseHead head_of_this_rank(const GroupState& group, const SparseView& tensor,
                               const SparseOptions& options);
  bool are_declared() const { return !input_->declared.empty(); }
  void add_gathers();
  void add_all_reduce();

  std::vector<std::int64_t> shape_;
  std::size_t sparse_dims_;
  ConstBufferView values_;
  ReduceOp reduction_;
  std::vector<int> ranks_;
  std::optional<SparseInput> input_;  ///< empty where it is not sound
  SparseHead head_;
  std::vector<SparseHead> heads_;
  std::vector<std::size_t> entries_;  ///< of each rank
  std::vector<std::size_t> counts_;   ///< of its values
  SparseRows rows_;  ///< of all ranks' entries; where indices are declared, of these
  std::vector<Request> requests_;
};

}  // namespace hymn::detail
