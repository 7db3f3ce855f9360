#include "tools/trace/waits.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/tag_text.hpp"
#include "control/coordinator.hpp"
#include "tools/trace/pairs.hpp"
#include "tools/trace/words.hpp"

namespace hymn::trace {

namespace {

// Later operations of a group lack whom the earlier ones lack, too.
constexpr std::size_t most_open = 64;

// Who has given up just before its dump is one of those who waited.
constexpr double just_given_up = 2.0;  // seconds
// By then a call that nothing moves on is marked as that.
constexpr double known_to_be_driven = 1.5;  // seconds

double waited(const Dump& dump, const Entry& entry) {
  if (!entry.created_ns) return 0;
  const bool failed = entry.state == EntryState::failed;
  const std::int64_t end = failed ? entry.completed_ns.value_or(dump.time_ns) : dump.time_ns;
  return std::max(seconds_between(*entry.created_ns, end), 0.0);
}

Waiter waiter_in(const Dump& dump, const Entry& entry) {
  return {dump.rank, &entry, waited(dump, entry), entry.waited_for, is_tested(dump, entry)};
}

/// Its members make it alone, and its number is still to be drawn.
bool has_no_number(const Job& job, const MakingReport& making) {
  std::uint64_t uid = 0;
  const char* const end = making.uid.data() + making.uid.size();
  const bool is_number = std::from_chars(making.uid.data(), end, uid).ec == std::errc();
  return is_number && control::is_undrawn(uid, job.world_size());
}

std::string group_made(const Job& job, const MakingReport& making) {
  return has_no_number(job, making) ? "a group" : "group " + making.uid;
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
        at(entry->collective_seq).waiters.push_back(waiter_in(*member.dump, *entry));
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
    wait.is_ending = !failed && wait.longest < short_wait_seconds && is_just_ending(wait);
    wait.is_fault =
        failed || wait.longest >= short_wait_seconds || (job_.in_trouble() && !wait.is_ending);
  }

  // Somebody has left it, and those who have not will at once: the dumps came in between.
  bool is_just_ending(const Wait& wait) const {
    if (!wait.missing.empty() || !wait.unknown.empty()) return false;
    const bool has_left = std::ranges::any_of(group_.members, [&](const Member& member) {
      const Entry* entry = member.find(wait.sequence);
      return member.completed.value_or(0) >= wait.sequence ||
             (entry != nullptr && entry->state == EntryState::completed);
    });
    return has_left && std::ranges::none_of(wait.waiters, [&](const Waiter& waiter) {
             const std::string& trigger = job_.dump(waiter.rank)->trigger;
             return trigger == "timeout" || trigger == "error";
           });
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
  wait.waiters.push_back(waiter_in(*job.dump(rank), entry));
  if (other >= 0 && (job.dump(other) != nullptr || job.fate(other).kind != Fate::Kind::alive))
    wait.missing.push_back(other);
  else if (other >= 0)
    wait.unknown.push_back(other);
  wait.is_fault =
      job.in_trouble() || entry.state == EntryState::failed || wait.longest >= short_wait_seconds;
  return wait;
}

/// What ranks make together: by kind and uid.
class OpenMakings {
  using Ranks = std::vector<std::int64_t>;

 public:
  explicit OpenMakings(const Job& job) : job_(job) {
    for (const Dump& dump : job.dumps())
      if (const MakingReport* making = making_of(dump)) add(dump, *making);
  }

  void finish(std::vector<Wait>& all) {
    for (auto& [key, wait] : waits_) {
      for (const int rank : members_of(wait)) add_absent(wait, rank);
      name(wait);
      all.push_back(std::move(wait));
    }
  }

 private:
  void add(const Dump& dump, const MakingReport& making) {
    Wait& wait = waits_[key_of(making)];
    if (wait.making == nullptr || !wait.making->ranks) wait.making = &making;
    const std::int64_t end = making.given_up_ns.value_or(dump.time_ns);
    const double seconds =
        making.since_ns ? std::max(seconds_between(*making.since_ns, end), 0.0) : 0.0;
    wait.waiters.push_back({dump.rank, nullptr, seconds});
    wait.longest = std::max(wait.longest, seconds);
    wait.is_fault |=
        seconds >= short_wait_seconds || making.given_up_ns || dump.trigger == "timeout";
  }

  // What stands for a number that is still to be drawn tells no more than who is to draw it.
  std::pair<std::string, std::string> key_of(const MakingReport& making) const {
    if (!has_no_number(job_, making)) return {making.kind, making.uid};
    return {making.kind, fmt::format("{} [{}]{}", making.uid,
                                     fmt::join(making.ranks.value_or(Ranks()), ","), making.tag)};
  }

  std::vector<int> members_of(const Wait& wait) const {
    std::vector<int> members;
    const Group* old = is_shrink(wait) ? job_.group(wait.making->uid) : nullptr;
    if (wait.making->kind == "end") {
      for (int rank = 0; rank < job_.world_size(); ++rank) members.push_back(rank);
    } else if (wait.making->ranks) {
      for (const std::int64_t rank : *wait.making->ranks)
        if (rank >= 0 && rank < job_.world_size()) members.push_back(static_cast<int>(rank));
    } else if (old != nullptr) {
      for (const Member& member : old->members) members.push_back(member.rank);
    }
    return members;
  }

  void add_absent(Wait& wait, int rank) const {
    if (wait.has(rank) || has_done(wait, rank)) return;
    const Dump* dump = job_.dump(rank);
    const bool is_gone = job_.fate(rank).kind != Fate::Kind::alive;
    const bool is_missing = dump == nullptr ? is_gone : !is_older(*dump, wait);
    (is_missing ? wait.missing : wait.unknown).push_back(rank);
  }

  // Who is not in it any more, or is not waited for.
  bool has_done(const Wait& wait, int rank) const {
    const Fate::Kind fate = job_.fate(rank).kind;
    if (wait.making->kind == "end") return fate == Fate::Kind::left;
    if (is_shrink(wait)) return fate != Fate::Kind::alive && fate != Fate::Kind::stalled;
    const Group* made = job_.group(wait.making->uid);
    const Member* member = made == nullptr ? nullptr : made->member(rank);
    return member != nullptr && member->knows_group();
  }

  // It may have come since its dump. Clocks of different hosts do not tell.
  bool is_older(const Dump& dump, const Wait& wait) const {
    return std::ranges::any_of(wait.waiters, [&](const Waiter& waiter) {
      const Dump& other = *job_.dump(waiter.rank);
      return other.host == dump.host && other.making->since_ns.value_or(0) > dump.time_ns;
    });
  }

  void name(Wait& wait) const {
    const MakingReport& making = *wait.making;
    wait.op = making.kind;
    wait.is_numbered = !has_no_number(job_, making);
    if (is_shrink(wait)) {
      wait.group = job_.group(making.uid);
      wait.name = of_group("shrink", job_.label(making.uid));
    } else if (making.kind == "end") {
      wait.name = "the end of the world";
    } else {
      const std::vector<int> members = members_of(wait);
      wait.name =
          fmt::format("new_group{}{} ({})", members.empty() ? "" : " of " + ranks_text(members),
                      with_tag(making.tag), group_made(job_, making));
    }
  }

  static bool is_shrink(const Wait& wait) { return wait.making->kind == "shrink"; }

  const Job& job_;
  std::map<std::pair<std::string, std::string>, Wait> waits_;
};

}  // namespace

const MakingReport* making_of(const Dump& dump) {
  if (!dump.making) return nullptr;
  const auto& given_up = dump.making->given_up_ns;
  const bool is_old = given_up && seconds_between(*given_up, dump.time_ns) > just_given_up;
  return is_old ? nullptr : &*dump.making;
}

std::string new_group_text(const Job& job, const MakingReport& making) {
  std::string text = group_made(job, making);
  if (making.ranks) text += " of " + ranks_text({making.ranks->begin(), making.ranks->end()});
  return text + with_tag(making.tag);
}

bool is_tested(const Dump& dump, const Entry& entry) {
  const bool is_driven_elsewhere = dump.progress_thread || entry.on_gpu;
  if (entry.waited_for || entry.undriven || is_driven_elsewhere) return false;
  return entry.state != EntryState::completed && waited(dump, entry) >= known_to_be_driven;
}

std::vector<int> Wait::blocked() const {
  std::vector<int> ranks;
  for (const Waiter& waiter : waiters)
    if (waiter.blocks) ranks.push_back(waiter.rank);
  return ranks;
}

std::string Wait::what() const { return making == nullptr ? of_group(name, group->label) : name; }

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
  OpenMakings(job).finish(waits);
  return waits;
}

std::vector<std::vector<std::size_t>> waits_of_ranks(const Job& job,
                                                     const std::vector<Wait>& waits) {
  std::vector<std::vector<std::size_t>> of_rank(static_cast<std::size_t>(job.world_size()));
  for (std::size_t i = 0; i < waits.size(); ++i) {
    if (waits[i].is_overtaken && waits[i].missing.empty() && waits[i].unknown.empty()) continue;
    if (waits[i].is_ending) continue;
    for (const int rank : waits[i].blocked()) of_rank[static_cast<std::size_t>(rank)].push_back(i);
  }
  return of_rank;
}

}  // namespace hymn::trace
