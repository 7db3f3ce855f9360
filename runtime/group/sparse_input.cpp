#include "runtime/group/sparse_input.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/validate_view.hpp"
#include "gpu/memory_query.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {
namespace {

/// Throws for a buffer that the host cannot read: indices of a GPU would be read right here.
void require_host_memory(const ConstBufferView& view, const GroupState& group) {
  if (view.bytes() == 0 && view.memory != MemoryKind::device) return;
  MemoryQuery* const memory = group.world().settings.memory;
  const bool is_on_gpu = view.memory == MemoryKind::device ||
                         (memory != nullptr && memory->at(view.data).kind == MemoryKind::device);
  if (!is_on_gpu) return;
  throw UnsupportedError(
      fmt::format("{} does not support all_reduce with sparse tensors",
                  group.means().nccl != nullptr ? "NCCL" : "what reaches the memory of GPUs"),
      {.remedy = "give indices and values in memory of the host, or all_reduce a dense tensor"});
}

void require_reduction(const ReduceOp& op) {
  const ReduceKind kind = op.kind();
  if (kind == ReduceKind::premul_sum)
    throw UnsupportedError("premul_sum is not there for sparse tensors",
                           {.remedy = "multiply the values, and give sum"});
  if (kind == ReduceKind::custom || kind == ReduceKind::opaque)
    throw UnsupportedError("sparse tensors are reduced by hymn's own reductions alone",
                           {.remedy = "all_gather_object the tensors, and reduce them yourself"});
}

void require_values(const ConstBufferView& values, std::size_t entries, std::size_t block) {
  validate_view("values", values);
  if (!values.strides.empty())
    throw UsageError("the values have strides", {.remedy = "give them without gaps, row by row"});
  std::size_t wanted = 0;
  if (__builtin_mul_overflow(entries, block, &wanted) || wanted != values.count)
    throw UsageError(
        fmt::format("{} values for {} entries of {} each", values.count, entries, block));
}

SparseKeys declared_keys(const SparsePlaces& places, std::span<const std::int64_t> indices) {
  SparseKeys keys = places.keys_of(indices, "declared index");
  std::ranges::sort(keys);
  const auto twice = std::ranges::adjacent_find(keys);
  if (twice != keys.end())
    throw UsageError(fmt::format("index {} is declared twice", places.text_of(*twice)),
                     {.remedy = "declare each index once"});
  return keys;
}

void require_declared(const SparseInput& input) {
  if (input.declared.empty()) return;
  for (std::size_t i = 0; i < input.keys.size(); ++i)
    if (!std::ranges::binary_search(input.declared, input.keys[i]))
      throw UsageError(fmt::format("index {} of entry {} is not among the {} that are declared",
                                   input.places.text_of(input.keys[i]), i, input.declared.size()),
                       {.remedy = "declare all indices that any rank may have, on all ranks"});
}

/// Sizes of memory are products of these.
void require_sizes(const SparseInput& input) {
  constexpr std::size_t most_bytes = PTRDIFF_MAX;
  const std::size_t each = std::max(input.reducer.element_bytes,
                                    std::max<std::size_t>(input.reducer.accumulator_bytes, 1));
  const std::size_t rows = std::max<std::size_t>(input.declared.size(), 1);
  if (input.places.block() <= most_bytes / 2 / each / rows) return;
  throw UsageError(fmt::format("{} rows of {} elements each are more than any memory has room for",
                               rows, input.places.block()),
                   {.remedy = "make more of the dimensions sparse"});
}

/// The indices in memory that can be read.
std::span<const std::int64_t> readable(std::span<const std::int64_t> indices,
                                       const GroupState& group) {
  const ConstBufferView view(indices.data(), indices.size(), DataType::int64);
  validate_view("indices", view);
  require_host_memory(view, group);
  return indices;
}

Reducer reducer_of(const SparseView& tensor, const SparseOptions& options,
                   const GroupState& group) {
  require_reduction(options.reduction);
  return reducer_for(
      tensor.values.dtype, options.reduction,
      group.options().reproducibility.value_or(group.world().settings.reproducibility));
}

}  // namespace

SparseInput::SparseInput(const SparseView& tensor, const SparseOptions& options,
                         const GroupState& group)
    : places(tensor.shape, tensor.sparse_dims),
      keys(places.keys_of(readable(tensor.indices, group), "index")),
      declared(declared_keys(places, readable(options.declared, group))),
      reducer(reducer_of(tensor, options, group)) {
  require_host_memory(tensor.values, group);
  require_values(tensor.values, keys.size(), places.block());
  require_sizes(*this);
  require_declared(*this);
}

}  // namespace hymn::detail
