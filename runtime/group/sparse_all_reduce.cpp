// all_reduce_sparse(): an all_gather by which all ranks learn what comes, and that it goes
// together; then what comes.
#include "runtime/group/sparse_all_reduce.hpp"

#include <fmt/format.h>

#include <optional>

#include "base/error_context.hpp"
#include "collectives/reduce/identity.hpp"
#include "runtime/group/call_of_steps.hpp"
#include "runtime/group/sparse_head.hpp"
#include "runtime/group/sparse_merge.hpp"

namespace hymn {
namespace detail {
namespace {

class SparseCall : public CallOfSteps {
 public:
  SparseCall(const ProcessGroup& group, const SparseView& tensor, const SparseOptions& options,
             const void* site)
      : CallOfSteps(group, "all_reduce_sparse", options.timeout, site),
        tensor_(tensor),
        options_(options) {}

  SparseTensor reduce() {
    std::optional<SparseInput> input;
    const std::vector<SparseHead> heads = all_heads(own_head(input));
    if (!is_member()) return {};
    require_agreement(heads, state().members().ranks(), context());
    return in_step([&] {
      return result(input->places,
                    input->declared.empty() ? gathered(*input, heads) : reduced(*input));
    });
  }

 private:
  /// `input` stays empty where it is not sound, and the head tells why.
  SparseHead own_head(std::optional<SparseInput>& input) const {
    try {
      input.emplace(tensor_, options_, state());
      return head_of(*input, tensor_, options_.reduction.kind());
    } catch (...) {
      return head_of(std::current_exception());
    }
  }

  std::vector<SparseHead> all_heads(const SparseHead& own) const {
    std::vector<SparseHead> heads(size());
    run(Request::all_gather(bytes_view(std::span(&own, 1)),
                            OutputBlocks::equal(writable_bytes_view(heads))));
    return heads;
  }

  SparseRows gathered(const SparseInput& input, std::span<const SparseHead> heads) const {
    const std::size_t block = input.places.block();
    std::vector<std::size_t> entries;
    std::vector<std::size_t> counts;
    std::size_t all = 0;
    for (const SparseHead& head : heads) {
      entries.push_back(head.entries);
      counts.push_back(head.entries * block);
      all += head.entries;
    }
    SparseKeys keys(all);
    run(Request::all_gather(input.keys, OutputBlocks::counted(keys, entries)));
    std::vector<std::byte> values(all * block * input.reducer.element_bytes);
    const BufferView view(values.data(), all * block, input.reducer.dtype);
    run(Request::all_gather(flat_values(), OutputBlocks::counted(view, counts)));
    return merge(input.reducer, keys, values.data(), block, static_cast<int>(size()));
  }

  /// A block of all declared rows, dense, goes through the group as any other.
  SparseRows reduced(const SparseInput& input) const {
    const ReduceKind kind = options_.reduction.kind();
    const std::size_t block = input.places.block();
    const std::size_t block_bytes = block * input.reducer.element_bytes;
    SparseRows rows{.keys = input.declared,
                    .values = std::vector<std::byte>(input.declared.size() * block_bytes)};
    if (traits_of(kind).family != ReduceFamily::sum)
      fill_identity(rows.values, input.reducer.dtype, kind);
    // An average divides the sum of all ranks, and not that of this one.
    const SparseRows own = merge(input.reducer, input.keys,
                                 static_cast<const std::byte*>(tensor_.values.data), block, 1);
    put_rows(own, rows, block_bytes);
    const BufferView view(rows.values.data(), input.declared.size() * block, input.reducer.dtype);
    run(Request::all_reduce(view, view, options_.reduction));
    return rows;
  }

  SparseTensor result(const SparsePlaces& places, SparseRows rows) const {
    return {.shape = {tensor_.shape.begin(), tensor_.shape.end()},
            .indices = places.indices_of(rows.keys),
            .values = std::move(rows.values),
            .dtype = tensor_.values.dtype,
            .sparse_dims = tensor_.sparse_dims};
  }

  ConstBufferView flat_values() const {
    return {tensor_.values.data, tensor_.values.count, tensor_.values.dtype};
  }

  const SparseView& tensor_;
  const SparseOptions& options_;
};

}  // namespace

SparseTensor all_reduce_sparse(const ProcessGroup& group, const SparseView& tensor,
                               const SparseOptions& options, const void* site) {
  return SparseCall(group, tensor, options, site).reduce();
}

void require_dtype(DataType asked, DataType there) {
  if (asked == there) return;
  throw UsageError(
      fmt::format("values of {} are asked for as {}", to_string(there), to_string(asked)),
      {.remedy = "ask for the dtype of the tensor"});
}

}  // namespace detail

SparseTensor all_reduce_sparse(const ProcessGroup& group, const SparseView& tensor,
                               const SparseOptions& options) {
  return detail::all_reduce_sparse(group, tensor, options, __builtin_return_address(0));
}

}  // namespace hymn
