// all_reduce_sparse(): an all_gather by which all ranks learn what comes, that it goes together,
// and which way it goes; then what comes.
#include "runtime/group/sparse_all_reduce.hpp"

#include <fmt/format.h>

#include "runtime/group/call_of_steps.hpp"
#include "runtime/group/sparse_operation.hpp"
#include "runtime/group/work_starter.hpp"

namespace hymn {
namespace detail {
namespace {

constexpr const char* call_name = "all_reduce_sparse";

/// `result`: as SparseOperation's.
Work start(GroupState& state, const CallOfSteps& call,
           const std::shared_ptr<SparseReduction>& reduction, SparseTensor* result, Timeout timeout,
           const void* site) {
  const auto prepare = [&](WorkPart& part, Algorithm& algorithm) {
    part.storage.emplace<SparseOperation>(state, reduction, algorithm, part.call, call.context(),
                                          result);
  };
  return Work(WorkStarter(state, {.timeout = timeout}, site)
                  .start_composed(reduction->heads_request(), reduction, prepare));
}

}  // namespace

SparseTensor all_reduce_sparse(const ProcessGroup& group, const SparseView& tensor,
                               const SparseOptions& options, const void* site) {
  const CallOfSteps call(group, call_name, options.timeout, site);
  GroupState& state = need(group);
  const auto reduction = std::make_shared<SparseReduction>(state, tensor, options, false);
  start(state, call, reduction, nullptr, options.timeout, site).wait();
  if (!call.is_member()) return {};
  return call.in_step([&] {
    if (!reduction->goes_by_messages())
      for (const Request& request : reduction->requests())
        call.run(request, {.may_send_nan = true});  // of one rank's entries inf - inf is one
    return reduction->result();
  });
}

Work all_reduce_sparse_async(const ProcessGroup& group, const SparseView& tensor,
                             SparseTensor& result, const SparseOptions& options, const void* site) {
  const CallOfSteps call(group, call_name, options.timeout, site);
  GroupState& state = need(group);
  if (state.world().settings.fake != nullptr)
    throw UnsupportedError("in a fake world nobody is there whose entries could come",
                           call.context("call all_reduce_sparse, which waits for nobody there"));
  const auto reduction = std::make_shared<SparseReduction>(state, tensor, options, true);
  // Elsewhere it may hold what is reduced, until it is there.
  if (!call.is_member()) result = {};
  return start(state, call, reduction, &result, options.timeout, site);
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
