#include "tools/trace/job.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace hymn::trace {

namespace {

bool by_sequence(const Entry* a, const Entry* b) { return a->collective_seq < b->collective_seq; }

Fate::Kind kind_of(const std::string& state) {
  if (state == "dead") return Fate::Kind::dead;
  if (state == "lost") return Fate::Kind::lost;
  if (state == "stalled") return Fate::Kind::stalled;
  if (state == "left") return Fate::Kind::left;
  return Fate::Kind::alive;
}

bool is_of_trouble(const std::string& trigger) {
  constexpr std::array triggers{"timeout", "error", "death", "abort", "watchdog"};
  return std::find(triggers.begin(), triggers.end(), trigger) != triggers.end();
}

// Numbers in their order, before anything else.
bool uid_before(const std::string& a, const std::string& b) {
  const auto is_number = [](const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  };
  if (is_number(a) != is_number(b)) return is_number(a);
  if (is_number(a) && a.size() != b.size()) return a.size() < b.size();
  return a < b;
}

std::string label_of(const GroupConfig& config) {
  if (!config.label.empty()) return config.label;
  const std::string& name = config.description.empty() ? config.name : config.description;
  if (name.empty() || name == config.uid) return config.uid;
  return config.uid == "0" ? name : name + "#" + config.uid;
}

// What a member has completed proves how far the others have come, whenever their dumps were made.
void mark_outdated(Group& group) {
  std::int64_t proven = 0;
  for (const Member& member : group.members)
    for (const Entry* entry : member.collectives)
      if (entry->state == EntryState::completed && waits_for_all(entry->op))
        proven = std::max(proven, entry->collective_seq);
  for (Member& member : group.members)
    member.outdated = member.dump != nullptr && member.entered < proven;
}

}  // namespace

bool waits_for_all(const std::string& op) {
  constexpr std::array ops{"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier"};
  return std::find(ops.begin(), ops.end(), op) != ops.end();
}

const Entry* Member::find(std::int64_t sequence) const {
  const auto found =
      std::lower_bound(collectives.begin(), collectives.end(), sequence,
                       [](const Entry* e, std::int64_t s) { return e->collective_seq < s; });
  return found != collectives.end() && (*found)->collective_seq == sequence ? *found : nullptr;
}

const Member* Group::member(int rank) const {
  const auto found = std::lower_bound(members.begin(), members.end(), rank,
                                      [](const Member& m, int r) { return m.rank < r; });
  return found != members.end() && found->rank == rank ? &*found : nullptr;
}

Member* Group::member(int rank) {
  const Member* found = std::as_const(*this).member(rank);
  return found == nullptr ? nullptr : &members[static_cast<std::size_t>(found - members.data())];
}

Job::Job(std::vector<Dump> dumps) : dumps_(std::move(dumps)) {
  std::sort(dumps_.begin(), dumps_.end(),
            [](const Dump& a, const Dump& b) { return a.rank < b.rank; });
  for (const Dump& dump : dumps_) {
    world_size_ = std::max(world_size_, dump.world_size);
    in_trouble_ |= is_of_trouble(dump.trigger);
  }
  collect_fates();
  collect_groups();
  add_members();
  add_entries();
  for (Group& group : groups_) mark_outdated(group);
}

void Job::collect_fates() {
  for (const Dump& dump : dumps_)
    for (const PeerReport& peer : dump.peers) {
      const Fate::Kind kind = kind_of(peer.state);
      if (kind == Fate::Kind::alive || peer.rank < 0 || peer.rank >= world_size_) continue;
      Fate& fate = fates_[static_cast<int>(peer.rank)];
      // The worst is believed; who knows nothing more keeps what was told before.
      if (kind > fate.kind || (kind == fate.kind && fate.detail.empty()))
        fate = {kind, peer.detail, peer.host, peer.pid};
    }
  for (const Dump& dump : dumps_)
    if (dump.written_by >= 0 && dump.written_by != dump.rank) {
      Fate& fate = fates_[dump.rank];
      if (fate.kind == Fate::Kind::alive) fate.kind = Fate::Kind::dead;
    }
}

void Job::collect_groups() {
  std::set<std::string> uids;
  for (const Dump& dump : dumps_) {
    for (const GroupConfig& config : dump.groups) uids.insert(config.uid);
    for (const Entry& entry : dump.entries)
      if (uids.empty() || *uids.rbegin() != entry.group) uids.insert(entry.group);
  }
  std::vector<std::string> ordered(uids.begin(), uids.end());
  std::sort(ordered.begin(), ordered.end(), uid_before);
  for (std::string& uid : ordered) {
    group_of_uid_[uid] = groups_.size();
    groups_.emplace_back().uid = std::move(uid);
  }
}

void Job::add_members() {
  std::vector<std::vector<int>> ranks(groups_.size());
  std::vector<const std::vector<std::int64_t>*> told(groups_.size(), nullptr);
  for (const Dump& dump : dumps_) {
    for (const GroupConfig& config : dump.groups) {
      const std::size_t g = group_of_uid_.at(config.uid);
      Group& group = groups_[g];
      if (group.label.empty()) group.label = label_of(config);
      if (config.aborted) {
        in_trouble_ = true;
        if (group.aborted.empty()) group.aborted = *config.aborted;
      }
      // All members tell the same list; it is taken once.
      if (config.ranks && (told[g] == nullptr || *told[g] != *config.ranks)) {
        told[g] = &*config.ranks;
        group.members_known = true;
        for (const std::int64_t rank : *config.ranks)
          if (rank >= 0 && rank < world_size_) ranks[g].push_back(static_cast<int>(rank));
      }
    }
  }
  const auto show_itself = [&](const std::string& uid, int rank) {
    const std::size_t g = group_of_uid_.at(uid);
    if (!groups_[g].members_known && (ranks[g].empty() || ranks[g].back() != rank))
      ranks[g].push_back(rank);
  };
  for (const Dump& dump : dumps_) {
    for (const GroupConfig& config : dump.groups) show_itself(config.uid, dump.rank);
    for (const Entry& entry : dump.entries) show_itself(entry.group, dump.rank);
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::vector<int>& list = ranks[g];
    std::sort(list.begin(), list.end());
    list.erase(std::unique(list.begin(), list.end()), list.end());
    Group& group = groups_[g];
    if (group.label.empty()) group.label = group.uid;
    group.members.resize(list.size());
    for (std::size_t i = 0; i < list.size(); ++i) {
      group.members[i].rank = list[i];
      group.members[i].dump = dump(list[i]);
    }
  }
}

void Job::add_entries() {
  for (const Dump& dump : dumps_) {
    const auto member_in = [&](const std::string& uid) {
      return groups_[group_of_uid_.at(uid)].member(dump.rank);
    };
    for (const GroupConfig& config : dump.groups)
      if (Member* member = member_in(config.uid)) {
        member->config = &config;
        member->entered = std::max(member->entered, config.collective_seq.value_or(0));
        member->completed = config.completed_seq;
      }
    Member* member = nullptr;
    const std::string* uid = nullptr;
    for (const Entry& entry : dump.entries) {
      if (uid == nullptr || *uid != entry.group) {
        uid = &entry.group;
        member = member_in(entry.group);
      }
      if (member == nullptr || entry.is_p2p || entry.collective_seq <= 0) continue;
      member->collectives.push_back(&entry);
      member->entered = std::max(member->entered, entry.collective_seq);
    }
  }
  for (Group& group : groups_)
    for (Member& member : group.members)
      std::stable_sort(member.collectives.begin(), member.collectives.end(), by_sequence);
}

const Dump* Job::dump(int rank) const {
  const auto found = std::lower_bound(dumps_.begin(), dumps_.end(), rank,
                                      [](const Dump& d, int r) { return d.rank < r; });
  return found != dumps_.end() && found->rank == rank ? &*found : nullptr;
}

const Group* Job::group(const std::string& uid) const {
  const auto found = group_of_uid_.find(uid);
  return found == group_of_uid_.end() ? nullptr : &groups_[found->second];
}

std::string Job::label(const std::string& uid) const {
  const Group* known = group(uid);
  return known == nullptr ? uid : known->label;
}

const Fate& Job::fate(int rank) const {
  static const Fate alive;
  const auto found = fates_.find(rank);
  return found == fates_.end() ? alive : found->second;
}

}  // namespace hymn::trace
