// Sends that nobody receives, and receives that nobody sends to.
#include <fmt/format.h>

#include <algorithm>

#include "tools/trace/pairs.hpp"
#include "tools/trace/verdict.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

std::string count_text(const Traffic& traffic) {
  return traffic.has_dump ? fmt::format("{}{}", traffic.is_whole ? "" : "at least ", traffic.calls)
                          : "an unknown number of";
}

// "rank 0 has made 5 sends to rank 1, which has made 4 receives from it"
std::string counts_line(const Pair& pair) {
  return fmt::format("rank {} has made {} sends to rank {}, which has made {} receives from it",
                     pair.sender, count_text(pair.sends), pair.receiver, count_text(pair.recvs));
}

// It has ended: whoever has not come would be waited for.
Finding finding_for_failed(const Case& all, const Wait& wait) {
  Finding finding = finding_about(FindingKind::p2p, wait);
  const Waiter& waiter = wait.waiters[0];
  const Dump& dump = *all.job.dump(waiter.rank);
  finding.culprits = {waiter.rank};
  finding.title = fmt::format("{} has failed on rank {}", wait.what(), waiter.rank);
  if (!dump.reason.empty()) finding.details.push_back(dump.reason);
  finding.details.push_back(fmt::format("rank {} has failed in {}{}", waiter.rank,
                                        call_words(*waiter.entry), at_site(waiter.entry->site)));
  finding.sides.push_back({wait.ranks(), call_words(*waiter.entry), site_text(waiter.entry->site)});
  finding.advice = "compare both calls: tag, number of elements and type have to fit";
  return finding;
}

Finding p2p_finding(const Case& all, const Wait& wait, const Pair& pair) {
  const Waiter& waiter = wait.waiters[0];
  if (waiter.entry->state == EntryState::failed && all.job.dump(waiter.rank)->trigger == "error")
    return finding_for_failed(all, wait);
  Finding finding = finding_about(FindingKind::p2p, wait);
  const bool sends = wait.op == "send";
  const int other = sends ? pair.receiver : pair.sender;
  finding.title = fmt::format("{} has no partner", wait.what());
  if (other < 0) {
    finding.title = fmt::format("nobody sends to {}", wait.what());
  } else {
    finding.culprits = {other};
    finding.title += fmt::format(": {} {}", who(all.job, {other}),
                                 sends ? "does not receive it" : "does not send it");
    const bool is_idle = all.waits_of[static_cast<std::size_t>(other)].empty();
    finding.is_consequence = !is_idle && all.job.fate(other).kind == Fate::Kind::alive;
    finding.details.push_back(fmt::format("rank {}: {}", other, whereabouts(all.job, other).text));
    finding.details.push_back(counts_line(pair));
  }
  finding.details.push_back(waiting_text(wait));
  finding.sides.push_back(
      {wait.ranks(), call_words(*wait.waiters[0].entry), site_text(wait.waiters[0].entry->site)});
  finding.advice = "every send needs a receive on the other rank, with the same tag and group";
  return finding;
}

/// What both have called, and how long each has waited.
Finding about_both(const Case& all, const Pair& pair, const Entry& send, const Entry& recv) {
  Finding finding;
  finding.kind = FindingKind::p2p;
  finding.is_p2p = true;
  finding.group_uid = pair.group->uid;
  finding.group_label = pair.group->label;
  finding.op = "send";
  finding.sequence = send.p2p_seq;
  const auto add = [&](const Entry& entry, int rank) {
    const Dump* dump = all.job.dump(rank);
    const double waited =
        entry.created_ns ? seconds_between(*entry.created_ns, dump->time_ns) : 0.0;
    finding.waited_seconds = std::max(finding.waited_seconds, waited);
    finding.sides.push_back({{rank}, call_words(entry), site_text(entry.site)});
    const bool is_open = entry.state == EntryState::scheduled || entry.state == EntryState::started;
    if (is_open) finding.waiting.push_back(rank);
    finding.details.push_back(
        fmt::format("rank {} {} {}{}", rank,
                    is_open ? fmt::format("has waited {} in", seconds_text(waited))
                    : entry.state == EntryState::failed ? "has failed in"
                                                        : "has made",
                    call_words(entry), at_site(entry.site)));
  };
  add(send, pair.sender);
  add(recv, pair.receiver);
  finding.is_fault = all.job.in_trouble() || finding.waited_seconds >= short_wait_seconds;
  return finding;
}

Finding finding_for_tags(const Case& all, const Pair& pair, const Pair::Apart& apart) {
  Finding finding = about_both(all, pair, *apart.send, *apart.recv);
  finding.title = fmt::format(
      "rank {} sends with tag {}, and rank {} receives with tag {}, in group '{}'", pair.sender,
      *apart.send->tag, pair.receiver, *apart.recv->tag, pair.group->label);
  finding.advice = "give both calls the same tag, or make the call that is missing on one side";
  return finding;
}

// Both have called, and the two do not find each other.
Finding finding_for_both(const Case& all, const Pair& pair) {
  const Entry& send = *pair.sends.open.front();
  const Entry& recv = *pair.recvs.open.front();
  Finding finding = about_both(all, pair, send, recv);
  finding.title =
      fmt::format("{} and {} of group '{}' do not come together", call_name(send, pair.sender),
                  call_name(recv, pair.receiver), pair.group->label);
  finding.advice = "compare their tags and sizes; if they agree, look for what carries the data";
  return finding;
}

Finding finding_for_overflow(const Case& all, const Pair& pair, const Pair::Overflow& overflow) {
  Finding finding = about_both(all, pair, *overflow.send, *overflow.recv);
  finding.title = fmt::format(
      "{} of group '{}' is longer than what it is received into: {} {} "
      "into {}",
      call_name(*overflow.send, pair.sender), pair.group->label, overflow.send->input.elements,
      overflow.send->input.dtype, overflow.recv->output.elements);
  finding.culprits = {pair.receiver};
  finding.advice = "give the receive a buffer that is at least as long as what is sent";
  return finding;
}

}  // namespace

std::vector<Finding> find_lonely(const Case& all) {
  std::vector<Finding> findings;
  const std::vector<Pair> pairs = find_pairs(all.job);
  // The waits were made from the same pairs, in the same order.
  auto wait = std::find_if(all.waits.begin(), all.waits.end(),
                           [](const Wait& candidate) { return candidate.is_p2p; });
  for (const Pair& pair : pairs) {
    const auto apart = pair.apart_by_tag();
    for (const bool waits : {pair.sender_waits(), pair.receiver_waits()}) {
      if (waits && !apart) findings.push_back(p2p_finding(all, *wait, pair));
      if (waits) ++wait;
    }
    if (apart)
      findings.push_back(finding_for_tags(all, pair, *apart));
    else if (const auto overflow = pair.overflow())
      findings.push_back(finding_for_overflow(all, pair, *overflow));
    else if (pair.both_wait())
      findings.push_back(finding_for_both(all, pair));
  }
  return findings;
}

}  // namespace hymn::trace
