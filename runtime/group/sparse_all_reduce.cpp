// all_reduce_sparse(): an all_gather by which all ranks learn what comes, and that it goes
// together; then what comes.
#include "runtime/group/sparse_all_reduce.hpp"

#include <fmt/format.h>

#include "runtime/group/call_of_steps.hpp"
#include "runtime/group/sparse_operation.hpp"
#include "runtime/group/work_starter.hpp"

namespace hymn {
namespace detail {
namespace {

constexpr const char* call_name = "all_reduce_sparse";

}  // namespace

SparseTensor all_reduce_sparse(const ProcessGroup& group, const SparseView& tensor,
                               const SparseOptions& options, const void* site) {
  const CallOfSteps call(group, call_name, options.timeout, site);
  SparseReduction reduction(need(group), tensor, options);
  call.run(reduction.heads_request());
  if (!call.is_member()) return {};
  reduction.require_agreement(call.context());
  return call.in_step([&] {
    for (const Request& request : reduction.requests()) call.run(request);
    return reduction.result();
  });
}

Work all_reduce_sparse_async(const ProcessGroup& group, const SparseView& tensor,
                             SparseTensor& result, const SparseOptions& options, const void* site) {
  const CallOfSteps call(group, call_name, options.timeout, site);
  GroupState& state = need(group);
  const auto reduction = std::make_shared<SparseReduction>(state, tensor, options);
  result = {};
  const auto prepare = [&](WorkPart& part, Algorithm& algorithm) {
    part.storage.emplace<SparseOperation>(state, reduction, algorithm, part.call, call.context(),
                                          result);
  };
  return Work(WorkStarter(state, {.timeout = options.timeout}, site)
                  .start_composed(reduction->heads_request(), reduction, prepare));
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

Work all_reduce_sparse_async(const ProcessGroup& group, const SparseView& tensor,
                             SparseTensor& result, const SparseOptions& options) {
  return detail::all_reduce_sparse_async(group, tensor, result, options,
                                         __builtin_return_address(0));
}

}  // namespace hymn
