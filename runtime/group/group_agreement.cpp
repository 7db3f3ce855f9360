#include "runtime/group/group_agreement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "recorder/call_snapshot.hpp"
#include "runtime/group/call_check.hpp"

namespace hymn::detail {
namespace {

/// Calls that have completed here are compared, too: a root does not wait for the others.
constexpr std::uint64_t looked_back = 32;
/// A call is recorded while what it has sent is on its way, unless the rank loses its core.
constexpr Duration way_to_record = std::chrono::milliseconds(200);
constexpr Duration shortest_wait = std::chrono::milliseconds(20);
/// Keeps sums of times far from their end, too.
constexpr Duration longest_between_polls = std::chrono::hours(1);
constexpr std::size_t most_announced = 16;

const SeenCall* seen_at(const CallSnapshot& snapshot, std::uint64_t sequence) {
  const auto& calls = snapshot.calls;
  if (calls.empty() || sequence < calls.front().sequence) return nullptr;
  const std::uint64_t at = sequence - calls.front().sequence;
  return at < calls.size() ? &calls[at] : nullptr;
}

}  // namespace

CallSnapshot GroupAgreement::latest_calls(const CallRing& ring) const {
  const std::uint64_t next = record_.line().completed.load(std::memory_order_acquire) + 1;
  const std::uint64_t first = next > looked_back ? next - looked_back : 1;
  CallSnapshot snapshot = look_at_calls(ring, members_.uid(), first);
  return snapshot.is_overwritten ? look_at_calls(ring, members_.uid(), next) : snapshot;
}

std::vector<GroupAgreement::MembersCalls> GroupAgreement::calls_of_all() const {
  std::vector<MembersCalls> all;
  for (const int rank : members_.ranks()) {
    if (rank == world_.rank()) {
      all.push_back({rank, latest_calls(world_.ring())});
    } else if (const auto view = world_.records.of(rank)) {
      all.push_back({rank, latest_calls(view->ring())});
    }
  }
  return all;
}

std::string GroupAgreement::tell_apart(std::span<const MembersCalls> all) const {
  const auto own = std::find_if(all.begin(), all.end(), [this](const MembersCalls& member) {
    return member.rank == world_.rank();
  });
  for (const SeenCall& call : own->snapshot.calls) {
    const CallFacts mine = facts_of(call);
    const auto differs = [&](const MembersCalls& member) {
      const SeenCall* const theirs = seen_at(member.snapshot, call.sequence);
      return theirs != nullptr && !fit(facts_of(*theirs), mine);
    };
    if (std::ranges::any_of(all, differs)) return tell_calls_of(all, call.sequence);
  }
  return {};
}

std::string GroupAgreement::tell_calls_of(std::span<const MembersCalls> all,
                                          std::uint64_t sequence) const {
  std::vector<int> ranks;
  std::vector<std::string> words;
  for (const MembersCalls& member : all) {
    const SeenCall* const call = seen_at(member.snapshot, sequence);
    if (call == nullptr) continue;
    ranks.push_back(member.rank);
    words.push_back(with_site(describe(*call), world_.records.site_of(member.rank, call->site)));
  }
  return fmt::format("in #{} {}", sequence, hymn::tell_calls(words, ranks));
}

std::exception_ptr GroupAgreement::apart_error(const std::string& told) {
  return std::make_exception_ptr(
      UsageError(fmt::format("ranks make different calls: {}", told),
                 {.remedy = "make the same calls, in the same order, on all ranks of the group"}));
}

std::exception_ptr GroupAgreement::named(const std::exception_ptr& other_call) const {
  if (!world_.ring().is_on()) return other_call;
  const Deadline deadline = Deadline::after(way_to_record);
  for (;;) {
    if (const std::string told = tell_apart(calls_of_all()); !told.empty())
      return apart_error(told);
    if (deadline.expired(std::chrono::steady_clock::now())) return other_call;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

std::exception_ptr GroupAgreement::look_for_other_calls(TimePoint began, TimePoint now) {
  // At level info the coordinator compares all calls.
  if (now - began < shortest_wait || watch_.watches(Watch::info)) return nullptr;
  // One look for all that is in flight, and after as long again as this has waited.
  std::int64_t next = next_look_.load(std::memory_order_relaxed);
  if (now.time_since_epoch().count() < next) return nullptr;
  const Duration again = std::min<Duration>(now - began, longest_between_polls);
  const std::int64_t after = (now + again).time_since_epoch().count();
  if (!next_look_.compare_exchange_strong(next, after, std::memory_order_relaxed)) return nullptr;
  const std::vector<MembersCalls> all = calls_of_all();
  if (const std::string told = tell_apart(all); !told.empty()) return apart_error(told);
  if (all.size() < members_.ranks().size()) announce_latest();
  return nullptr;
}

// Calls of other hosts are compared at the coordinator.
void GroupAgreement::announce_latest() {
  std::size_t announced = 0;
  for (const SeenCall& call : latest_calls(world_.ring()).calls) {
    if (call.sequence <= announced_.load(std::memory_order_relaxed)) continue;
    if (announced++ == most_announced) return;
    announced_.store(call.sequence, std::memory_order_relaxed);
    const CallFacts facts = facts_of(call);
    world_.peers.post(control::EnteredCall{.uid = members_.uid(),
                                           .sequence = call.sequence,
                                           .signature = signature_of(facts),
                                           .words = describe(call)});
  }
}

}  // namespace hymn::detail
