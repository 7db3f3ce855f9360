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

Finding finding_for(const Case& all, const Wait& wait, const Pair& pair) {
  Finding finding = finding_about(FindingKind::p2p, wait);
  const bool sends = wait.op == "send";
  const int other = sends ? pair.receiver : pair.sender;
  finding.title = fmt::format("{} has no partner", of_group(wait.name, wait.group->label));
  if (other < 0) {
    finding.title = fmt::format("nobody sends to {}", of_group(wait.name, wait.group->label));
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

// Both have called, and the two do not find each other.
Finding finding_for_both(const Case& all, const Pair& pair) {
  const Entry& send = *pair.sends.open.front();
  const Entry& recv = *pair.recvs.open.front();
  Finding finding;
  finding.kind = FindingKind::p2p;
  finding.is_p2p = true;
  finding.group_uid = pair.group->uid;
  finding.group_label = pair.group->label;
  finding.op = "send";
  finding.sequence = send.p2p_seq;
  finding.waiting = {pair.sender, pair.receiver};
  finding.title =
      fmt::format("{} and {} of group '{}' do not come together", call_name(send, pair.sender),
                  call_name(recv, pair.receiver), pair.group->label);
  const auto add = [&](const Entry& entry, int rank) {
    const Dump* dump = all.job.dump(rank);
    const double waited =
        entry.created_ns ? seconds_between(*entry.created_ns, dump->time_ns) : 0.0;
    finding.waited_seconds = std::max(finding.waited_seconds, waited);
    finding.sides.push_back({{rank}, call_words(entry), site_text(entry.site)});
    finding.details.push_back(fmt::format("rank {} has waited {} in {}{}", rank,
                                          seconds_text(waited), call_words(entry),
                                          at_site(entry.site)));
  };
  add(send, pair.sender);
  add(recv, pair.receiver);
  finding.is_fault = all.job.in_trouble() || finding.waited_seconds >= short_wait_seconds;
  finding.advice = "compare their tags and sizes; if they agree, look for what carries the data";
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
    for (const bool waits : {pair.sender_waits(), pair.receiver_waits()})
      if (waits) findings.push_back(finding_for(all, *wait++, pair));
    if (pair.both_wait()) findings.push_back(finding_for_both(all, pair));
  }
  return findings;
}

}  // namespace hymn::trace
