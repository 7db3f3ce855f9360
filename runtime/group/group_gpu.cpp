// What a group waits for on the GPU of its rank before anything of a call is sent. No peer is
// waited for, so that nobody is to blame and the group stays as it is.
#include <fmt/format.h>

#include "base/error_context.hpp"
#include "base/patience.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/world_context.hpp"

namespace hymn::detail {

std::optional<Duration> GroupState::await(const std::function<bool()>& is_done, Timeout limit,
                                          const std::function<void()>& look) {
  // Others may wait for steps of what is in flight.
  Patience patience = world_->patience("waiting for the GPU", limit);
  patience.meanwhile = [&look, rest = std::move(patience.meanwhile)] {
    look();
    rest();
  };
  PatientWait wait(patience);
  if (wait.until(is_done)) return std::nullopt;
  return wait.waited();
}

void GroupState::await_gpu(const Call& call, Timeout limit, const char* what,
                           const std::function<bool()>& is_done) {
  const auto waited = await(is_done, limit, [&] {
    if (is_aborted()) std::rethrow_exception(aborted_error(title(call)));
  });
  if (!waited) return;
  ErrorContext where = context(title(call));
  where.remedy = "find out what holds up the stream, or give more time";
  throw TimeoutError(fmt::format("within {:.3f} s the GPU has not reached {}; nothing was sent",
                                 std::chrono::duration<double>(*waited).count(), what),
                     *waited, std::move(where));
}

void GroupState::await_ready(Operation& operation, const Call& call, Timeout limit) {
  if (operation.is_ready()) return;
  try {
    await_gpu(call, limit, "the copies of what is staged",
              [&operation] { return operation.is_ready(); });
  } catch (const std::exception& error) {
    world_->engine->keep(operation.abandon(error.what()));
    rethrow_with(context(title(call)));
  }
}

// The kernel comes after what the stream holds.
std::size_t GroupState::find_nan_on_gpu(const Call& call, const ConstBufferView& view,
                                        Timeout limit) {
  GpuDevice& gpu = *means_.reach.gpu;
  const OrderingDomain& domain = call.request->domain;
  const auto stream = domain.kind == OrderingDomain::Kind::host
                          ? gpu.stream(false)
                          : static_cast<cuda_api::Stream>(domain.stream);
  if (gpu.is_capturing(stream))
    throw UnsupportedError(
        "a CUDA graph cannot capture the check for NaN, which the host waits for",
        {.remedy = "capture without it (GroupOptions::nan_check)"});
  const cuda::DeviceNan::Search search(*means_.reach.nan, view, stream);
  await_gpu(call, limit, "the check for NaN", [&search] { return search.is_done(); });
  return search.result();
}

}  // namespace hymn::detail
