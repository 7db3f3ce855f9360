#include "runtime/group/group_checks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/error_context.hpp"
#include "base/meeting.hpp"
#include "collectives/coalesced_calls.hpp"
#include "collectives/reduce/find_nan.hpp"
#include "p2p/exchange_port.hpp"
#include "runtime/group/call_check.hpp"
#include "runtime/group/call_title.hpp"

namespace hymn::detail {
namespace {

/// One for each collective of the group.
std::uint64_t check_tag(std::uint64_t sequence) { return group_tags::of_checks | sequence; }

}  // namespace

WatchedCall GroupChecks::examine(const Call& call, const Algorithm& algorithm,
                                 const CallContext& note) {
  const Clock& clock = group_.world.clock();
  WatchedCall watched{.is_on = group_.watch.watches(Watch::hooks | Watch::metrics)};
  watched.path = algorithm.path();
  watched.entered = clock.now();
  examine_part(call, note);
  watched.started = clock.now();
  return watched;
}

void GroupChecks::examine_part(const Call& call, const CallContext& note) {
  if (group_.watch.watches(Watch::nan_check) && !note.may_send_nan) {
    try {
      require_numbers(call, note.limit);
    } catch (...) {
      rethrow_with(group_.members.context(title_of(call)));
    }
  }
  if (!is_collective(call.request->type)) return;
  if (group_.watch.watches(Watch::detail)) compare(call, note);
  if (group_.watch.watches(Watch::info)) announce(call);
}

// Of a group that was given up it stays: there others look for who has not come.
void GroupChecks::end_meeting(OpType type) const noexcept {
  if (is_collective(type) && !group_.health.is_aborted())
    group_.record.line().met.store(group_.record.collective_sequence(), std::memory_order_release);
}

void GroupChecks::require_numbers(const Call& call, Timeout limit) {
  const Request& request = *call.request;
  // Of these only the root's side is read, and the others' may hold anything.
  const bool from_root = traits_of(request.type).root == RootRole::gives;
  if (from_root && request.peer != group_.world.rank()) return;
  const auto views = request.inputs.views();
  for (std::size_t i = 0; i < views.size(); ++i) {
    const ConstBufferView& view = views[i];
    if (view.count == 0 || !may_hold_nan(view.dtype)) continue;
    const std::size_t found = view.memory == MemoryKind::device
                                  ? group_.gpu.find_nan_on_gpu(call, view, limit)
                                  : find_nan(view.data, view.count, view.dtype);
    if (found == view.count) continue;
    const bool listed = request.inputs.layout() == Layout::list;
    throw UsageError(
        fmt::format("element {} of the {} elements of {} that {} would send{} is a NaN", found,
                    view.count, to_string(view.dtype), to_string(request.type),
                    listed ? fmt::format(" from buffer #{} of its list", i + 1) : ""),
        {.remedy = "find out where it comes from; or do without the check (HYMN_NAN_CHECK=0, "
                   "GroupOptions::nan_check)"});
  }
}

void GroupChecks::announce(const Call& call) {
  const CallFacts facts = facts_of(call);
  const std::string cut = facts.cut != 0 ? tell_cut(counts_of_calls(call)) : "";
  group_.world.peers.post(control::EnteredCall{.uid = group_.members.uid(),
                                               .sequence = call.sequence,
                                               .signature = signature_of(facts),
                                               .words = describe(facts) + cut});
}

void GroupChecks::compare(const Call& call, const CallContext& note) {
  const PendingOp op = pending_of(call);
  Patience patience = group_.world.patience(title_of(call), note.limit);
  patience.context = group_.members.context(title_of(call));
  patience.is_hopeless = [this, op](int rank) {
    if (group_.health.is_aborted()) return true;
    if (group_.health.is_sound()) return false;
    const auto gone = group_.health.missed_by(op);
    return std::any_of(gone.begin(), gone.end(),
                       [rank](const PeerNews& news) { return news.rank == rank; });
  };
  CheckedCall mine = CheckedCall::of(call, group_.members.shape());
  if (call.in_own_bundles) mine.sizes.push_back(note.bundle_bytes);
  Packer packer;
  mine.pack(packer);
  // From now on this rank is none of those who are missing.
  group_.record.line().met.store(call.sequence, std::memory_order_release);
  try {
    const auto said = all_gather(*group_.means.exchange, group_.members.ranks(),
                                 check_tag(call.sequence), packer.packed(), patience);
    std::vector<CheckedCall> calls;
    for (const Bytes& word : said) {
      Unpacker unpacker(word);
      calls.push_back(CheckedCall::unpack(unpacker));
    }
    if (const auto misfit = find_misfit(calls, group_.members.ranks()))
      refuse_apart(call, note, patience, mine, *misfit);
  } catch (const TimeoutError& error) {
    give_up_meeting(op, error, note.limit);
  }
}

// All have found the same: now they tell each other what they do, in words.
void GroupChecks::refuse_apart(const Call& call, const CallContext& note, const Patience& patience,
                               const CheckedCall& mine, const std::string& misfit) {
  Packer packer;
  packer.text(fmt::format("{} (at {})", describe(mine.facts), describe_site(note.site)));
  const auto said = all_gather(*group_.means.exchange, group_.members.ranks(),
                               check_tag(call.sequence), packer.packed(), patience);
  std::vector<std::string> words;
  for (const Bytes& word : said) words.push_back(Unpacker(word).text());
  ErrorContext where = group_.members.context(title_of(call));
  where.remedy = "make the same calls, in the same order, on all ranks of the group";
  throw UsageError(
      fmt::format("ranks make different calls: {}{}{}", tell_calls(words, group_.members.ranks()),
                  misfit.empty() ? "" : "; ", misfit),
      std::move(where));
}

void GroupChecks::give_up_meeting(const PendingOp& op, const TimeoutError& error, Timeout limit) {
  const auto& missing = error.context().missing;
  const auto names = [&missing](int rank) {
    return std::find(missing.begin(), missing.end(), rank) != missing.end();
  };
  const int first = group_.members.ranks().front();
  const int me = group_.world.rank();
  // The first member has gathered what all said, and told the others whom it has missed; unless
  // they have not heard of it, or have come too late themselves.
  const bool knows = me == first ? !group_.health.is_aborted() : !names(first) && !names(me);
  if (me != first && names(me))  // the others may have said so, but it has not come here yet
    group_.health.abort_here(
        {fmt::format("rank {} has come too late to {}", me, title_of(op)), missing});
  if (!knows && group_.health.is_aborted())
    std::rethrow_exception(group_.health.aborted_error(title_of(op)));
  auto gone = group_.health.missed_by(op);
  // Of those who have come some may have gone meanwhile, because of this.
  std::erase_if(gone, [&](const PeerNews& news) { return !names(news.rank); });
  std::exception_ptr reason;
  if (!gone.empty())
    reason = group_.health.gone_error(title_of(op), "cannot begin", gone);
  else if (!knows && !limit.is_none())
    reason = group_.inquiry.timeout_error(op, error.waited(), limit);
  else
    reason = group_.inquiry.missed_error(op, error);
  group_.health.abort(group_.health.describe_failure(reason, title_of(op)));
  std::rethrow_exception(reason);
}

}  // namespace hymn::detail
