#include "runtime/group/group_watch.hpp"

#include "recorder/call_facts.hpp"
#include "runtime/group/work_wait.hpp"

namespace hymn::detail {
namespace {

std::string text_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& known) {
    return known.what();
  } catch (...) {
    return "something that is not a std::exception";
  }
}

std::size_t payload_of_parts(const WorkState& work) {
  std::size_t bytes = 0;
  std::size_t received = 0;
  for (const WorkPart* const part : work.parts().all()) {
    const Request& request = part->request.get();
    (request.type == OpType::recv ? received : bytes) += payload_of(request);
  }
  return bytes != 0 ? bytes : received;
}

std::string hook_name(const WorkState& work, int rank) {
  const OpType type = work.name().type;
  if (work.parts().empty()) return profiling_name(type, rank, -1);
  const WorkPart& first = *work.parts().all().front();
  return first.call.coalesced != 0 ? coalesced_name(type)
                                   : profiling_name(type, rank, first.request.get().peer);
}

}  // namespace

unsigned GroupWatch::watch_from(const GroupOptions& options) const {
  unsigned watch = 0;
  if (!members_.is_member()) return watch;
  if (options.nan_check.value_or(world_.settings.config.nan_check)) watch |= Watch::nan_check;
  if (world_.metrics != nullptr) watch |= Watch::metrics;
  if (members_.shape().size == 1) return watch;
  if (world_.settings.checks == CheckLevel::detail) watch |= Watch::detail;
  if (world_.settings.checks == CheckLevel::info && world_.peers.has_control())
    watch |= Watch::info;
  return watch;
}

void GroupWatch::on_completion(CompletionHook hook) {
  if (!hook) throw UsageError("a completion hook is empty", members_.context("on_completion"));
  if (!members_.is_member()) return;
  completions_.add_hook(std::move(hook));
  watch_.fetch_or(Watch::hooks, std::memory_order_relaxed);
}

void GroupWatch::note_ended(const Call& call, const WatchedCall& watched,
                            const std::exception_ptr& error) {
  const TimePoint now = world_.clock().now();
  const Request& request = *call.request;
  const std::size_t bytes = payload_of(request);
  if (watches(Watch::metrics)) {
    const Duration total = now - watched.entered;
    world_.metrics->add(watched.path, request.type, bytes, error == nullptr, total, total);
  }
  if (!watches(Watch::hooks)) return;
  CompletionInfo info{.type = request.type,
                      .name = profiling_name(request.type, world_.rank(), request.peer),
                      .group = members_.label(),
                      .sequence = call.sequence,
                      .p2p = !is_collective(request.type),
                      .bytes = bytes,
                      .error = text_of(error)};
  if (world_.ring().timing()) info.active = now - watched.started;
  completions_.note(std::move(info));
  tell_hooks();
}

void GroupWatch::note_ended(const WorkState& work, const std::exception_ptr& error) {
  if (!members_.is_member()) return;
  const TimePoint now = world_.clock().now();
  const std::size_t bytes = payload_of_parts(work);
  if (watches(Watch::metrics))
    world_.metrics->add(work.parts().path(), work.name().type, bytes, error == nullptr,
                        now - work.started(), Duration::zero());
  if (!watches(Watch::hooks)) return;
  CompletionInfo info{.type = work.name().type,
                      .name = hook_name(work, world_.rank()),
                      .group = members_.label(),
                      .sequence = work.name().sequence,
                      .p2p = !is_collective(work.name().type),
                      .bytes = bytes,
                      .error = text_of(error)};
  if (world_.ring().timing()) info.active = now - work.started();
  completions_.note(std::move(info));
}

void GroupWatch::note_waited(const WorkState& work, Duration waited) {
  if (members_.is_member() && watches(Watch::metrics))
    world_.metrics->add_waiting(work.parts().path(), work.name().type, waited);
}

void GroupWatch::tell_hooks() {
  if (watches(Watch::hooks)) completions_.tell(world_.logger);
}

void GroupWatch::settle(std::span<const std::shared_ptr<WorkState>> pending, Timeout timeout) {
  const Clock& clock = world_.clock();
  const TimePoint began = clock.now();
  const Deadline deadline = Deadline::after(timeout, began);
  std::exception_ptr first;
  for (const auto& work : pending) {
    Timeout left = timeout;
    if (timeout.is_set() && !deadline.is_never())
      left = std::max(deadline.when() - clock.now(), Duration::zero());
    try {
      WorkWait(*work).wait(left);
    } catch (const std::exception&) {
      // The patience of this call has ended, not the operation.
      if (!work->is_completed()) throw;
      if (!first) first = work->error();
    }
  }
  const Timeout left = deadline.is_never() || !timeout.is_set()
                           ? Timeout::none()
                           : Timeout(std::max(deadline.when() - clock.now(), Duration::zero()));
  const Patience patience = world_.patience("waiting for completion hooks", left);
  if (!completions_.settle(world_.logger, patience))
    throw TimeoutError("a completion hook on another thread has not returned", clock.now() - began,
                       members_.context("wait_for_pending_works"));
  if (first) std::rethrow_exception(first);
}

void GroupWatch::end_hooks(Timeout patience) {
  try {
    completions_.close(world_.logger, world_.patience("ending hooks", patience));
  } catch (const std::exception&) {
    // The rank leaves, or MPI is gone: the thread that is in one lets go of them when it returns.
  }
}

}  // namespace hymn::detail
