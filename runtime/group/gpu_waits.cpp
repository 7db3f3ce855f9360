#include "runtime/group/gpu_waits.hpp"

#include <fmt/format.h>

#include "base/error_context.hpp"
#include "base/patience.hpp"

namespace hymn::detail {

std::optional<Duration> GpuWaits::await(const std::function<bool()>& is_done, Timeout limit,
                                        const std::function<void()>& look) const {
  // Others may wait for steps of what is in flight.
  Patience patience = world_.patience("waiting for the GPU", limit);
  patience.meanwhile = [&look, rest = std::move(patience.meanwhile)] {
    look();
    rest();
  };
  PatientWait wait(patience);
  if (wait.until(is_done)) return std::nullopt;
  return wait.waited();
}

void GpuWaits::await_gpu(const Call& call, Timeout limit, const char* what,
                         const std::function<bool()>& is_done) const {
  const auto waited = await(is_done, limit, [&] {
    if (health_.is_aborted()) std::rethrow_exception(health_.aborted_error(title_of(call)));
  });
  if (!waited) return;
  ErrorContext where = members_.context(title_of(call));
  where.remedy = "find out what holds up the stream, or give more time";
  throw TimeoutError(fmt::format("within {:.3f} s the GPU has not reached {}; nothing was sent",
                                 std::chrono::duration<double>(*waited).count(), what),
                     *waited, std::move(where));
}

void GpuWaits::await_ready(Operation& operation, const Call& call, Timeout limit) const {
  if (operation.is_ready()) return;
  try {
    await_gpu(call, limit, "the copies of what is staged",
              [&operation] { return operation.is_ready(); });
  } catch (const std::exception& error) {
    world_.engine->keep(operation.abandon(error.what()));
    rethrow_with(members_.context(title_of(call)));
  }
}

// The kernel comes after what the stream holds.
std::size_t GpuWaits::find_nan_on_gpu(const Call& call, const ConstBufferView& view,
                                      Timeout limit) const {
  GpuDevice& gpu = *reach_.gpu;
  const OrderingDomain& domain = call.request->domain;
  const auto stream = domain.kind == OrderingDomain::Kind::host
                          ? gpu.stream(false)
                          : static_cast<cuda_api::Stream>(domain.stream);
  if (gpu.is_capturing(stream))
    throw UnsupportedError(
        "a CUDA graph cannot capture the check for NaN, which the host waits for",
        {.remedy = "capture without it (GroupOptions::nan_check)"});
  const cuda::DeviceNan::Search search(*reach_.nan, view, stream);
  await_gpu(call, limit, "the check for NaN", [&search] { return search.is_done(); });
  return search.result();
}

}  // namespace hymn::detail
