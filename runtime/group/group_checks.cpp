// What a group checks of a call before anything of it is sent: docs/checks.md.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error_context.hpp"
#include "base/meeting.hpp"
#include "collectives/reduce/find_nan.hpp"
#include "p2p/exchange_port.hpp"
#include "runtime/group/call_check.hpp"
#include "runtime/group/group_state.hpp"
#include "runtime/group/world_context.hpp"
#include "runtime/rank/some_names.hpp"

namespace hymn::detail {
namespace {

/// One for each collective of the group.
std::uint64_t check_tag(std::uint64_t sequence) { return group_tags::of_checks | sequence; }

}  // namespace

WatchedCall GroupState::examine(const Call& call, const Algorithm& algorithm,
                                const CallContext& note) {
  const Clock& clock = world_->clock();
  WatchedCall watched{.is_on = watches(Watch::hooks | Watch::metrics)};
  watched.path = algorithm.path();
  watched.entered = clock.now();
  examine_part(call, note);
  watched.started = clock.now();
  return watched;
}

void GroupState::examine_part(const Call& call, const CallContext& note) {
  if (watches(Watch::nan_check)) {
    try {
      require_numbers(call, note.limit);
    } catch (...) {
      rethrow_with(context(title(call)));
    }
  }
  if (!is_collective(call.request->type)) return;
  if (watches(Watch::detail)) compare(call, note);
  if (watches(Watch::info)) announce(call);
}

// --- Numbers

void GroupState::require_numbers(const Call& call, Timeout limit) {
  const Request& request = *call.request;
  // Of these only the root's side is read, and the others' may hold anything.
  const bool from_root = traits_of(request.type).root == RootRole::gives;
  if (from_root && request.peer != world_->rank()) return;
  const auto views = request.inputs.views();
  for (std::size_t i = 0; i < views.size(); ++i) {
    const ConstBufferView& view = views[i];
    if (view.count == 0 || !may_hold_nan(view.dtype)) continue;
    const std::size_t found = view.memory == MemoryKind::device
                                  ? find_nan_on_gpu(call, view, limit)
                                  : find_nan(view.data, view.count, view.dtype);
    if (found == view.count) continue;
    const bool listed = request.inputs.layout() == Layout::list;
    throw UsageError(
        fmt::format("element {} of the {} elements of {} that {} would send{} is a NaN", found,
                    view.count, to_string(view.dtype), to_string(request.type),
                    listed ? fmt::format(" from buffer {} of its list", i) : ""),
        {.remedy = "find out where it comes from; or do without the check (HYMN_NAN_CHECK=0, "
                   "GroupOptions::nan_check)"});
  }
}

// --- Level info

void GroupState::announce(const Call& call) {
  const CallFacts facts = facts_of(*call.request);
  world_->peers.post(control::EnteredCall{.uid = membership_.uid,
                                          .sequence = call.sequence,
                                          .signature = signature_of(facts),
                                          .words = describe(facts)});
}

// --- Level detail

void GroupState::compare(const Call& call, const CallContext& note) {
  const PendingOp op = pending(call);
  Patience patience = world_->patience(title(call), note.limit);
  patience.context = context(title(call));
  patience.is_hopeless = [this, op](int rank) {
    if (is_aborted()) return true;
    if (is_sound()) return false;
    const auto gone = gone_.missed_by(op, world_->clock().now());
    return std::any_of(gone.begin(), gone.end(),
                       [rank](const PeerNews& news) { return news.rank == rank; });
  };
  const CheckedCall mine = CheckedCall::of(*call.request, shape_, call.peer);
  Packer packer;
  mine.pack(packer);
  // From now on this rank is none of those who are missing.
  line_->met.store(call.sequence, std::memory_order_release);
  try {
    const auto said = all_gather(*means_.exchange, membership_.ranks, check_tag(call.sequence),
                                 packer.packed(), patience);
    std::vector<CheckedCall> calls;
    for (const Bytes& word : said) {
      Unpacker unpacker(word);
      calls.push_back(CheckedCall::unpack(unpacker));
    }
    if (const auto misfit = find_misfit(calls, membership_.ranks))
      refuse_apart(call, note, patience, mine, *misfit);
  } catch (const TimeoutError& error) {
    give_up_meeting(op, error, note.limit);
  }
}

// All have found the same: now they tell each other what they do, in words.
void GroupState::refuse_apart(const Call& call, const CallContext& note, const Patience& patience,
                              const CheckedCall& mine, const std::string& misfit) {
  Packer packer;
  packer.text(fmt::format("{} (at {})", describe(mine.facts), describe_site(note.site)));
  const auto said = all_gather(*means_.exchange, membership_.ranks, check_tag(call.sequence),
                               packer.packed(), patience);
  std::vector<std::string> words;
  for (const Bytes& word : said) words.push_back(Unpacker(word).text());
  // The number was not taken, and may be asked for again.
  line_->met.store(0, std::memory_order_release);
  ErrorContext where = context(title(call));
  where.remedy = "make the same calls, in the same order, on all ranks of the group";
  throw UsageError(
      fmt::format("ranks make different calls: {}{}{}", tell_calls(words, membership_.ranks),
                  misfit.empty() ? "" : "; ", misfit),
      std::move(where));
}

void GroupState::give_up_meeting(const PendingOp& op, const TimeoutError& error, Timeout limit) {
  const auto& missing = error.context().missing;
  const auto names = [&missing](int rank) {
    return std::find(missing.begin(), missing.end(), rank) != missing.end();
  };
  const int first = membership_.ranks.front();
  const int me = world_->rank();
  // The first member has gathered what all said, and told the others whom it has missed; unless
  // they have not heard of it, or have come too late themselves.
  const bool knows = me == first ? !is_aborted() : !names(first) && !names(me);
  if (me != first && names(me))  // the others may have said so, but it has not come here yet
    abort_here({fmt::format("rank {} has come too late to {}", me, title(op)), missing});
  if (!knows && is_aborted()) std::rethrow_exception(aborted_error(title(op)));
  auto gone = gone_.missed_by(op, world_->clock().now());
  // Of those who have come some may have gone meanwhile, because of this.
  std::erase_if(gone, [&](const PeerNews& news) { return !names(news.rank); });
  std::exception_ptr reason;
  if (!gone.empty())
    reason = gone_error(title(op), "cannot begin", gone);
  else if (!knows && !limit.is_none())
    reason = timeout_error(op, error.waited(), limit);
  else
    reason = missed_error(op, error);
  abort(describe_failure(reason, title(op)));
  std::rethrow_exception(reason);
}

}  // namespace hymn::detail
