#include "tools/trace/pairs.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace hymn::trace {

namespace {

constexpr int any = -1;

/// Open calls of or to a rank that do not name their partner.
struct Wild {
  std::size_t recvs = 0;     ///< of the rank, from any
  std::size_t batches = 0;   ///< of the rank
  std::size_t sends_to = 0;  ///< of others to the rank
};

bool is_whole(const Dump& dump) {
  if (!dump.has_entries || dump.truncated) return false;
  return dump.entries.empty() ? dump.recorded == 0 : dump.entries.front().record_id == 0;
}

class Collector {
 public:
  explicit Collector(const Job& job) : job_(job) {
    for (const Dump& dump : job.dumps())
      for (const Entry& entry : dump.entries)
        if (entry.is_p2p) add(dump.rank, entry);
  }

  std::vector<Pair> pairs() {
    std::vector<Pair> all;
    for (auto& [key, pair] : pairs_) {
      const auto& [uid, sender, receiver] = key;
      pair.group = job_.group(uid);
      pair.sender = sender;
      pair.receiver = receiver;
      describe(pair.sends, sender);
      describe(pair.recvs, receiver);
      const Wild& at_receiver = wild_[{uid, receiver}];
      pair.other_recvs = at_receiver.batches + at_receiver.recvs;
      pair.other_sends = sender == any ? at_receiver.sends_to : wild_[{uid, sender}].batches;
      all.push_back(std::move(pair));
    }
    return all;
  }

 private:
  void add(int rank, const Entry& entry) {
    const bool is_open = entry.state != EntryState::completed;
    // One that waits lacks a send, as a receive does; one that does not has taken nothing.
    const bool probes = entry.op == "probe";
    if (probes && !is_open) return;
    if (entry.op != "send" && entry.op != "recv" && !probes) {
      if (is_open) ++wild_[{entry.group, rank}].batches;
      return;
    }
    const bool is_send = entry.op == "send";
    const std::int64_t told = entry.peer.value_or(any);
    if (told >= job_.world_size() || (is_send && told < 0)) return;  // absurd
    const int peer = told < 0 ? any : static_cast<int>(told);
    Pair& pair = is_send ? pairs_[{entry.group, rank, peer}] : pairs_[{entry.group, peer, rank}];
    Traffic& traffic = is_send ? pair.sends : pair.recvs;
    ++traffic.calls;
    traffic.all.push_back(&entry);
    if (is_open) traffic.open.push_back(&entry);
    if (is_open && is_send) ++wild_[{entry.group, peer}].sends_to;
    if (is_open && peer == any) ++wild_[{entry.group, rank}].recvs;
  }

  void describe(Traffic& traffic, int rank) const {
    const Dump* dump = rank == any ? nullptr : job_.dump(rank);
    traffic.has_dump = dump != nullptr;
    traffic.is_whole = dump != nullptr && is_whole(*dump);
  }

  const Job& job_;
  std::map<std::tuple<std::string, int, int>, Pair> pairs_;
  std::map<std::pair<std::string, int>, Wild> wild_;
};

}  // namespace

bool Pair::sender_waits() const {
  if (sends.open.empty() || !recvs.open.empty() || other_recvs > 0) return false;
  // The receiver has taken as many as were sent: the rest is on its way.
  const bool all_counted = sends.is_whole && recvs.is_whole;
  return !all_counted || sends.calls > recvs.calls;
}

bool Pair::receiver_waits() const {
  if (recvs.open.empty() || !sends.open.empty() || other_sends > 0) return false;
  const bool all_counted = sends.is_whole && recvs.is_whole;
  return !all_counted || recvs.calls > sends.calls;
}

// What was sent may have left its sender without having been taken: it is counted by tags.
std::optional<Pair::Apart> Pair::apart_by_tag() const {
  const bool all_counted = sends.is_whole && recvs.is_whole;
  const auto& made = all_counted ? sends.all : sends.open;
  const auto& taken = all_counted ? recvs.all : recvs.open;
  std::map<std::int64_t, std::int64_t> surplus;  // of sends over receives, by tag
  for (const Entry* send : made)
    if (send->tag) ++surplus[*send->tag];
  for (const Entry* recv : taken)
    if (recv->tag) --surplus[*recv->tag];
  const auto find = [&](const std::vector<const Entry*>& calls, std::int64_t sign) {
    const auto found = std::find_if(calls.rbegin(), calls.rend(), [&](const Entry* entry) {
      return entry->tag && surplus[*entry->tag] * sign > 0;
    });
    return found == calls.rend() ? nullptr : *found;
  };
  const Apart apart{find(made, 1), find(taken, -1)};
  const auto is_open = [](const Entry& entry) { return entry.state != EntryState::completed; };
  if (apart.send == nullptr || apart.recv == nullptr) return std::nullopt;
  return is_open(*apart.send) || is_open(*apart.recv) ? std::optional(apart) : std::nullopt;
}

// Messages with one tag are received in the order in which they were sent.
std::optional<Pair::Overflow> Pair::overflow() const {
  if (!sends.is_whole || !recvs.is_whole) return std::nullopt;
  for (const Entry* recv : recvs.open) {
    if (!recv->tag) continue;
    const auto has_tag = [&](const Entry* entry) { return entry->tag == recv->tag; };
    const auto place = std::count_if(recvs.all.begin(),
                                     std::find(recvs.all.begin(), recvs.all.end(), recv), has_tag);
    auto send = std::find_if(sends.all.begin(), sends.all.end(), has_tag);
    for (auto i = place; i > 0 && send != sends.all.end(); --i)
      send = std::find_if(std::next(send), sends.all.end(), has_tag);
    if (send == sends.all.end() || (*send)->input.dtype != recv->output.dtype) continue;
    if ((*send)->input.elements > recv->output.elements) return Overflow{*send, recv};
  }
  return std::nullopt;
}

std::vector<Pair> find_pairs(const Job& job) { return Collector(job).pairs(); }

}  // namespace hymn::trace
