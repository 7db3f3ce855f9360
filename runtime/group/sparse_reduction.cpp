#include "runtime/group/sparse_reduction.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/reduce/find_nan.hpp"
#include "collectives/reduce/identity.hpp"
#include "runtime/group/call_of_steps.hpp"

namespace hymn::detail {
namespace {

void require_numbers(const ConstBufferView& values) {
  if (values.count == 0 || !may_hold_nan(values.dtype)) return;
  const std::size_t found = find_nan(values.data, values.count, values.dtype);
  if (found != values.count)
    throw UsageError(
        fmt::format("value {} of the {} values of {} is a NaN", found, values.count,
                    to_string(values.dtype)),
        {.remedy = "find out where it comes from; or do without the check (HYMN_NAN_CHECK=0, "
                   "GroupOptions::nan_check)"});
}

}  // namespace

SparseReduction::SparseReduction(const GroupState& group, const SparseView& tensor,
                                 const SparseOptions& options, bool is_work)
    : shape_(tensor.shape.begin(), tensor.shape.end()),
      sparse_dims_(tensor.sparse_dims),
      values_(tensor.values.data, tensor.values.count, tensor.values.dtype),
      reduction_(options.reduction),
      ranks_(group.members().ranks()),
      head_(head_of_this_rank(group, tensor, options)),
      heads_(ranks_.size()) {
  head_.is_work = is_work ? 1 : 0;
}

SparseHead SparseReduction::head_of_this_rank(const GroupState& group, const SparseView& tensor,
                                              const SparseOptions& options) {
  try {
    input_.emplace(tensor, options, group);
    if (group.watch().watches(Watch::nan_check)) require_numbers(values_);
    return head_of(*input_, tensor, reduction_.kind());
  } catch (...) {
    return head_of(std::current_exception());
  }
}

Request SparseReduction::heads_request() {
  return Request::all_gather(bytes_view(std::span(&head_, 1)),
                             OutputBlocks::equal(writable_bytes_view(heads_)));
}

void SparseReduction::require_agreement(const ErrorContext& context) const {
  detail::require_agreement(heads_, ranks_, context);
}

bool SparseReduction::goes_by_messages() const {
  return std::ranges::any_of(heads_, [](const SparseHead& head) { return head.is_work != 0; });
}

const std::vector<Request>& SparseReduction::requests() {
  are_declared() ? add_all_reduce() : add_gathers();
  return requests_;
}

void SparseReduction::add_gathers() {
  const Reducer& reducer = input_->reducer;
  const std::size_t block = input_->places.block();
  std::size_t all = 0;
  for (const SparseHead& head : heads_) {
    entries_.push_back(head.entries);
    counts_.push_back(head.entries * block);
    all += head.entries;
  }
  rows_.keys.resize(all);
  rows_.values.resize(all * block * reducer.element_bytes);
  const BufferView values(rows_.values.data(), all * block, reducer.dtype);
  requests_ = {Request::all_gather(input_->keys, OutputBlocks::counted(rows_.keys, entries_)),
               Request::all_gather(values_, OutputBlocks::counted(values, counts_))};
}

/// A block of all declared rows, dense, goes through the group as any other.
void SparseReduction::add_all_reduce() {
  const Reducer& reducer = input_->reducer;
  const ReduceKind kind = reduction_.kind();
  const std::size_t block = input_->places.block();
  const std::size_t block_bytes = block * reducer.element_bytes;
  rows_.keys = input_->declared;
  rows_.values.resize(rows_.keys.size() * block_bytes);
  if (traits_of(kind).family != ReduceFamily::sum) fill_identity(rows_.values, reducer.dtype, kind);
  // An average divides the sum of all ranks, and not that of this one.
  const SparseRows own =
      merge(reducer, input_->keys, static_cast<const std::byte*>(values_.data), block, 1);
  put_rows(own, rows_, block_bytes);
  const BufferView view(rows_.values.data(), rows_.keys.size() * block, reducer.dtype);
  requests_ = {Request::all_reduce(view, view, reduction_)};
}

SparseTensor SparseReduction::result() {
  if (!are_declared())
    rows_ = merge(input_->reducer, rows_.keys, rows_.values.data(), input_->places.block(),
                  static_cast<int>(ranks_.size()));
  return {.shape = std::move(shape_),
          .indices = input_->places.indices_of(rows_.keys),
          .values = std::move(rows_.values),
          .dtype = values_.dtype,
          .sparse_dims = sparse_dims_};
}

}  // namespace hymn::detail
