#include "tools/trace/waits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "tools/trace/pairs.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

// Later operations of a group lack whom the earlier ones lack, too.
constexpr std::size_t most_open = 64;

double waited(const Dump& dump, const Entry& entry) {
  if (!entry.created_ns) return 0;
  const bool failed = entry.state == EntryState::failed;
  const std::int64_t end = failed ? entry.completed_ns.value_or(dump.time_ns) : dump.time_ns;
  return std::max(seconds_between(*entry.created_ns, end), 0.0);
}

/// The open collectives of one group, by sequence.
class OpenCollectives {
 public:
  OpenCollectives(const Job& job, const Group& group) : job_(job), group_(group) {
    for (const Member& member : group.members)
      if (member.dump != nullptr) add(member);
    while (waits_.size() > most_open) waits_.erase(std::prev(waits_.end()));
  }

  void finish(std::vector<Wait>& all) {
    for (auto& [sequence, wait] : waits_) {
      add_absent(wait);
      name(wait);
      all.push_back(std::move(wait));
    }
  }

 private:
  Wait& at(std::int64_t sequence) {
    Wait& wait = waits_[sequence];
    wait.group = &group_;
    wait.sequence = sequence;
    return wait;
  }

  void add(const Member& member) {
    for (const Entry* entry : member.collectives)
      if (entry->state != EntryState::completed)
        at(entry->collective_seq)
            .waiters.push_back({member.rank, entry, waited(*member.dump, *entry)});
    // What the ring has lost is still told by the counts.
    if (!member.completed || *member.completed < 0 || *member.completed >= member.entered) return;
    const std::int64_t next = *member.completed + 1;
    if (member.find(next) == nullptr) at(next).waiters.push_back({member.rank, nullptr, 0});
  }

  void add_absent(Wait& wait) {
    std::sort(wait.waiters.begin(), wait.waiters.end(),
              [](const Waiter& a, const Waiter& b) { return a.rank < b.rank; });
    for (const Member& member : group_.members) {
      if (wait.has(member.rank)) continue;
      const bool tells = member.dump != nullptr && !member.outdated;
      if (tells && member.entered >= wait.sequence) continue;
      const bool is_gone = job_.fate(member.rank).kind != Fate::Kind::alive;
      const bool is_missing = tells || (member.dump == nullptr && is_gone);
      (is_missing ? wait.missing : wait.unknown).push_back(member.rank);
    }
    for (const Waiter& waiter : wait.waiters) {
      wait.longest = std::max(wait.longest, waiter.seconds);
      wait.is_overtaken |= group_.member(waiter.rank)->entered > wait.sequence;
    }
    const bool failed =
        std::any_of(wait.waiters.begin(), wait.waiters.end(), [](const Waiter& waiter) {
          return waiter.entry != nullptr && waiter.entry->state == EntryState::failed;
        });
    wait.is_fault = failed || job_.in_trouble() || wait.longest >= short_wait_seconds;
  }

  void name(Wait& wait) const {
    for (const Waiter& waiter : wait.waiters)
      if (waiter.entry != nullptr) {
        wait.op = waiter.entry->op;
        break;
      }
    for (const Member& member : group_.members) {
      if (!wait.op.empty()) break;
      if (const Entry* entry = member.find(wait.sequence)) wait.op = entry->op;
    }
    wait.name = fmt::format("{} #{}", wait.op.empty() ? "collective" : wait.op, wait.sequence);
  }

  const Job& job_;
  const Group& group_;
  std::map<std::int64_t, Wait> waits_;
};

Wait wait_for_partner(const Job& job, const Pair& pair, bool sender_waits) {
  Wait wait;
  const Traffic& mine = sender_waits ? pair.sends : pair.recvs;
  const int rank = sender_waits ? pair.sender : pair.receiver;
  const int other = sender_waits ? pair.receiver : pair.sender;
  const Entry& entry = *mine.open.front();
  wait.group = job.group(entry.group);
  wait.is_p2p = true;
  wait.sequence = entry.p2p_seq;
  wait.op = entry.op;
  wait.name = call_name(entry, rank);
  wait.longest = waited(*job.dump(rank), entry);
  wait.waiters.push_back({rank, &entry, wait.longest});
  if (other >= 0 && (job.dump(other) != nullptr || job.fate(other).kind != Fate::Kind::alive))
    wait.missing.push_back(other);
  else if (other >= 0)
    wait.unknown.push_back(other);
  wait.is_fault =
      job.in_trouble() || entry.state == EntryState::failed || wait.longest >= short_wait_seconds;
  return wait;
}

}  // namespace

std::vector<int> Wait::ranks() const {
  std::vector<int> ranks;
  for (const Waiter& waiter : waiters) ranks.push_back(waiter.rank);
  return ranks;
}

CallSite Wait::site() const {
  for (const Waiter& waiter : waiters)
    if (waiter.entry != nullptr && waiter.entry->site != CallSite()) return waiter.entry->site;
  return {};
}

bool Wait::has(int rank) const {
  const auto found = std::lower_bound(waiters.begin(), waiters.end(), rank,
                                      [](const Waiter& w, int r) { return w.rank < r; });
  return found != waiters.end() && found->rank == rank;
}

std::vector<Wait> find_waits(const Job& job) {
  std::vector<Wait> waits;
  for (const Group& group : job.groups()) OpenCollectives(job, group).finish(waits);
  for (const Pair& pair : find_pairs(job)) {
    if (pair.sender_waits()) waits.push_back(wait_for_partner(job, pair, true));
    if (pair.receiver_waits()) waits.push_back(wait_for_partner(job, pair, false));
  }
  return waits;
}

std::vector<std::vector<std::size_t>> waits_of_ranks(const Job& job,
                                                     const std::vector<Wait>& waits) {
  std::vector<std::vector<std::size_t>> of_rank(static_cast<std::size_t>(job.world_size()));
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].is_overtaken && waits[i].missing.empty() && waits[i].unknown.empty()) continue;
    for (const Waiter& waiter : waits[i].waiters)
      of_rank[static_cast<std::size_t>(waiter.rank)].push_back(i);
  }
  return of_rank;
}

}  // namespace hymn::trace
