#include "runtime/world/job_map.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <set>

#include "hymn/error.hpp"
#include "runtime/rank/gpu_views.hpp"
#include "runtime/world/group_spots.hpp"
#include "topology/affinity.hpp"

namespace hymn {
namespace {

// Tags of the bootstrap; WorldState has the others.
constexpr std::uint64_t tag_leaders = 3;
constexpr std::uint64_t tag_machine = 4;
constexpr std::uint64_t tag_host = 5;
constexpr std::uint64_t tag_scout = 6;

// How much longer ranks wait for their leader than it waits for the other leaders, so that it can
// still tell them what went wrong.
constexpr Duration leader_grace = std::chrono::seconds(1);

/// What went wrong on one rank, told to others.
struct Trouble {
  std::string problem;  ///< empty: nothing
  std::string remedy;
  std::vector<int> missing;  ///< as ErrorContext says
  Duration waited{};         ///< for those that have not come
  bool is_peer = false;      ///< they are known to be gone

  void note(const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    problem = known == nullptr ? error.what() : known->problem();
    if (known != nullptr) {
      remedy = known->context().remedy;
      missing = known->context().missing;
      is_peer = known->kind() == ErrorKind::peer;
    }
    if (const auto* late = dynamic_cast<const TimeoutError*>(&error))
      waited = std::max(late->waited(), Duration(1));
  }
  void pack(Packer& packer) const {
    packer.text(problem).text(remedy).number(static_cast<std::uint64_t>(waited.count()));
    packer.number(is_peer ? 1 : 0).number(missing.size());
    for (const int rank : missing) packer.number(static_cast<std::uint64_t>(rank));
  }
  static Trouble unpack(Unpacker& unpacker) {
    Trouble trouble;
    trouble.problem = unpacker.text();
    trouble.remedy = unpacker.text();
    trouble.waited = Duration(static_cast<Duration::rep>(unpacker.number()));
    trouble.is_peer = unpacker.number() == 1;
    trouble.missing.resize(unpacker.count());
    for (int& lost : trouble.missing) lost = static_cast<int>(unpacker.number());
    return trouble;
  }
  /// Throws it on `rank`. After a ConfigError all ranks end their world together, which they cannot
  /// where one is missing.
  void raise(int rank) const {
    if (problem.empty()) return;
    ErrorContext context{.rank = rank, .remedy = remedy, .missing = missing};
    if (is_peer) throw PeerError(problem, std::move(context));
    if (waited > Duration::zero()) throw TimeoutError(problem, waited, std::move(context));
    throw ConfigError(problem, std::move(context));
  }
};

/// What a leader says of its host to the other leaders.
struct HostWord {
  Trouble trouble;
  std::string fingerprint;
  HostSummary summary;

  void pack(Packer& packer) const {
    trouble.pack(packer);
    packer.text(fingerprint);
    hymn::pack(packer, summary);
  }
  static HostWord unpack(Unpacker& unpacker) {
    HostWord word;
    word.trouble = Trouble::unpack(unpacker);
    word.fingerprint = unpacker.text();
    word.summary = unpack_summary(unpacker);
    return word;
  }
};

/// One rank's part in the meeting.
class JobMeeting {
 public:
  JobMeeting(Exchange& exchange, std::span<const Arrival> arrivals, const MachineReader& read,
             const Patience& patience)
      : exchange_(exchange), arrivals_(arrivals), read_(read), patience_(patience) {
    find_hosts();
  }

  JobMap map() {
    // Ranks of one process can all look at the machine, for it is looked at only once.
    if (leaders_.size() == 1 && one_process()) {
      lead();
    } else if (exchange_.rank() != leader()) {
      hear_from_leader();
    } else {
      lead_others();
    }
    return std::move(map_);
  }

 private:
  int leader() const { return locals_.front(); }
  const Arrival& arrival(int rank) const { return arrivals_[static_cast<std::size_t>(rank)]; }
  const Arrival& mine() const { return arrival(exchange_.rank()); }
  int my_kind() const { return map_.world.hosts[static_cast<std::size_t>(map_.host)].machine; }

  void find_hosts();
  bool one_process() const;
  void place(const Machine& machine);
  HostWord look();
  std::vector<int> scouts() const;
  void scout();
  void hear_scouts();
  void choose_gpu(RankRecord& record, const Machine& machine) const;
  void lead();
  void lead_others();
  void exchange_machines(std::span<const HostWord> words);
  void tell_locals(const Packer& packer);
  void hear_from_leader();
  void check_told() const;
  [[noreturn]] void fail(const std::string& problem, const std::string& remedy) const {
    throw ConfigError(problem, {.rank = exchange_.rank(), .remedy = remedy});
  }

  Exchange& exchange_;
  std::span<const Arrival> arrivals_;
  const MachineReader& read_;
  const Patience& patience_;
  std::vector<int> leaders_;  // by host
  std::vector<int> locals_;   // the ranks of this host
  std::shared_ptr<const KnownMachine> own_;
  std::vector<std::string> jsons_;  // by kind, on leaders
  GpuViews views_;
  JobMap map_;
};

void JobMeeting::find_hosts() {
  std::map<std::string_view, int> indices;
  map_.host_name = mine().host_name;
  for (int rank = 0; rank < static_cast<int>(arrivals_.size()); ++rank) {
    const Arrival& other = arrival(rank);
    const auto [host, is_new] =
        indices.try_emplace(other.host_key, static_cast<int>(leaders_.size()));
    if (is_new) {
      leaders_.push_back(rank);
      map_.host_names.push_back(other.host_name);
    }
    if (other.host_key == mine().host_key) {
      map_.host = host->second;
      locals_.push_back(rank);
    }
    const int first = leaders_[static_cast<std::size_t>(host->second)];
    if (other.topology_file != arrival(first).topology_file)
      fail(fmt::format("HYMN_TOPOLOGY_FILE is '{}' on rank {} but '{}' on rank {} of the same host",
                       other.topology_file, rank, arrival(first).topology_file, first),
           "start all ranks with the same file where they share a host");
  }
}

bool JobMeeting::one_process() const {
  return std::all_of(locals_.begin(), locals_.end(),
                     [this](int rank) { return arrival(rank).process == mine().process; });
}

/// By HYMN_GPU, which counts as the rank does that gives it.
void JobMeeting::choose_gpu(RankRecord& record, const Machine& machine) const {
  const Arrival& rank = arrival(record.rank);
  if (const auto view = views_.find(rank.visible_gpus); view != views_.end())
    record.seen_gpus = view->second;
  record.wants_no_gpu = rank.gpu == "none" || (!views_.empty() && record.seen_gpus.empty());
  if (rank.gpu.empty() || rank.gpu == "none") return;
  std::vector<int> seen = record.seen_gpus;
  if (views_.empty())
    for (const Gpu& gpu : machine.gpus)
      seen.push_back(static_cast<int>(&gpu - machine.gpus.data()));
  std::size_t index = seen.size();
  std::from_chars(rank.gpu.data(), rank.gpu.data() + rank.gpu.size(), index);
  if (index >= seen.size())
    fail(fmt::format("HYMN_GPU is {} on rank {}, which sees {} GPUs", rank.gpu, record.rank,
                     seen.size()),
         "give the index of a visible GPU, counted from 0, or check CUDA_VISIBLE_DEVICES");
  record.wanted_gpu = seen[index];
}

void JobMeeting::place(const Machine& machine) {
  std::vector<BindWish> wishes;
  for (const int rank : locals_) wishes.push_back({arrival(rank).cpus, arrival(rank).bind});
  std::vector<CpuSet> shares = share_out(machine, wishes);
  std::vector<RankRecord> records;
  for (std::size_t i = 0; i < locals_.size(); ++i) {
    RankRecord& record = records.emplace_back();
    record.rank = locals_[i];
    record.cpus = std::move(shares[i]);
    choose_gpu(record, machine);
  }
  map_.places = place_on_host(machine, records);
  const auto me = std::lower_bound(locals_.begin(), locals_.end(), exchange_.rank());
  map_.me = static_cast<std::size_t>(me - locals_.begin());
}

/// Whatever goes wrong here must not keep this rank from telling it.
HostWord JobMeeting::look() {
  HostWord word;
  try {
    own_ = read_();
    hear_scouts();
    place(*own_->machine);
    word.fingerprint = own_->fingerprint;
    word.summary = summarise(*own_->machine, 0, map_.places);
  } catch (const std::exception& error) {
    word.trouble.note(error);
    word.trouble.problem = fmt::format("host {}: {}", map_.host_name, word.trouble.problem);
  }
  return word;
}

/// The lowest ranks of this host with each value of CUDA_VISIBLE_DEVICES but the leader's: they see
/// what it does not.
std::vector<int> JobMeeting::scouts() const {
  std::set<std::string_view> values = {arrival(leader()).visible_gpus};
  std::vector<int> found;
  for (const int rank : locals_)
    if (values.insert(arrival(rank).visible_gpus).second) found.push_back(rank);
  return found;
}

void JobMeeting::scout() {
  Trouble trouble;
  std::string json;
  try {
    json = read_()->json;
  } catch (const std::exception& error) {
    trouble.note(error);
  }
  Packer packer;
  trouble.pack(packer);
  packer.text(json);
  exchange_.send(leader(), tag_scout, packer.packed());
}

void JobMeeting::hear_scouts() {
  const std::vector<int> ranks = scouts();
  if (ranks.empty()) return;
  Machine merged = *own_->machine;
  auto& first = views_[mine().visible_gpus];
  first.resize(merged.gpus.size());
  std::iota(first.begin(), first.end(), 0);
  for (const int rank : ranks) {
    const Bytes bytes = receive(exchange_, rank, tag_scout, patience_).bytes;
    Unpacker unpacker(bytes);
    Trouble::unpack(unpacker).raise(exchange_.rank());
    views_[arrival(rank).visible_gpus] = merge_gpus(merged, *machine_from_peer(unpacker.text()));
  }
  own_ = KnownMachine::of(std::make_shared<const Machine>(std::move(merged)));
}

void JobMeeting::lead() {
  std::vector<HostWord> words;
  const HostWord own_word = look();
  if (leaders_.size() == 1) {
    words.push_back(own_word);
  } else {
    Packer packer;
    own_word.pack(packer);
    for (const Bytes& said :
         all_gather(exchange_, leaders_, tag_leaders, packer.packed(), patience_)) {
      Unpacker unpacker(said);
      words.push_back(HostWord::unpack(unpacker));
    }
  }
  std::map<std::string, int> kinds;
  for (const HostWord& word : words) {
    word.trouble.raise(exchange_.rank());
    HostSummary& summary = map_.world.hosts.emplace_back(word.summary);
    summary.machine =
        kinds.try_emplace(word.fingerprint, static_cast<int>(kinds.size())).first->second;
  }
  map_.world.size = static_cast<int>(arrivals_.size());
  map_.machines.resize(kinds.size());
  map_.machines[static_cast<std::size_t>(my_kind())] = own_->machine;
  jsons_.resize(kinds.size());
  jsons_[static_cast<std::size_t>(my_kind())] = own_->json;
  if (kinds.size() > 1) exchange_machines(words);
}

/// The lowest leader with a machine of each kind sends it to the leaders with others.
void JobMeeting::exchange_machines(std::span<const HostWord> words) {
  std::vector<int> senders(map_.machines.size(), -1);
  for (std::size_t host = 0; host < words.size(); ++host) {
    int& sender = senders[static_cast<std::size_t>(map_.world.hosts[host].machine)];
    if (sender < 0) sender = leaders_[host];
  }
  const std::string& json = own_->json;
  if (senders[static_cast<std::size_t>(my_kind())] == exchange_.rank())
    for (std::size_t host = 0; host < leaders_.size(); ++host)
      if (map_.world.hosts[host].machine != my_kind())
        exchange_.send(leaders_[host], tag_machine, std::as_bytes(std::span(json)));
  for (std::size_t kind = 0; kind < senders.size(); ++kind) {
    if (static_cast<int>(kind) == my_kind()) continue;
    const Bytes bytes = receive(exchange_, senders[kind], tag_machine, patience_).bytes;
    jsons_[kind].assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    map_.machines[kind] = machine_from_peer(jsons_[kind]);
  }
}

void JobMeeting::lead_others() {
  Packer packer;
  try {
    lead();
  } catch (const std::exception& error) {
    // Here is only what all leaders know, or that one of them has not come.
    Trouble trouble;
    trouble.note(error);
    trouble.pack(packer);
    tell_locals(packer);
    throw;
  }
  Trouble().pack(packer);
  packer.number(map_.world.hosts.size());
  for (const HostSummary& host : map_.world.hosts) pack(packer, host);
  packer.number(jsons_.size());
  for (const std::string& json : jsons_) packer.text(json);
  packer.number(views_.size());
  for (const auto& [visible, gpus] : views_) {
    packer.text(visible).number(gpus.size());
    for (const int gpu : gpus) packer.number(static_cast<std::uint64_t>(gpu));
  }
  tell_locals(packer);
}

void JobMeeting::tell_locals(const Packer& packer) {
  for (const int rank : locals_)
    if (rank != exchange_.rank()) exchange_.send(rank, tag_host, packer.packed());
}

/// What has travelled is used as indices.
void JobMeeting::check_told() const {
  auto is_below = [](int index, std::size_t count) {
    return index >= 0 && static_cast<std::size_t>(index) < count;
  };
  bool sound = map_.world.hosts.size() == leaders_.size();
  for (const HostSummary& host : map_.world.hosts)
    sound = sound && is_below(host.machine, map_.machines.size());
  for (const auto& [visible, gpus] : views_)
    for (const int gpu : gpus) sound = sound && is_below(gpu, map_.machine().gpus.size());
  if (!sound)
    throw NetworkError(
        fmt::format("rank {} reports hosts or GPUs that do not exist", leader()),
        {.rank = exchange_.rank(), .remedy = "check that all ranks run the same version of hymn"});
}

void JobMeeting::hear_from_leader() {
  const std::vector<int> sent = scouts();
  if (std::find(sent.begin(), sent.end(), exchange_.rank()) != sent.end()) scout();
  Patience patience = patience_;
  if (!patience.deadline.is_never())
    patience.deadline = Deadline(patience.deadline.when() + leader_grace);
  const Bytes bytes = receive(exchange_, leader(), tag_host, patience).bytes;
  Unpacker unpacker(bytes);
  Trouble::unpack(unpacker).raise(exchange_.rank());
  map_.world.size = static_cast<int>(arrivals_.size());
  map_.world.hosts.resize(unpacker.count());
  for (HostSummary& host : map_.world.hosts) host = unpack_summary(unpacker);
  map_.machines.resize(unpacker.count());
  for (auto& machine : map_.machines) machine = machine_from_peer(unpacker.text());
  for (std::uint64_t views = unpacker.number(); views > 0; --views) {
    std::vector<int>& gpus = views_[unpacker.text()];
    gpus.resize(unpacker.count());
    for (int& gpu : gpus) gpu = static_cast<int>(unpacker.number());
  }
  check_told();
  place(map_.machine());
}

}  // namespace

JobMap map_job(Exchange& exchange, std::span<const Arrival> arrivals, const MachineReader& read,
               const Patience& patience) {
  return JobMeeting(exchange, arrivals, read, patience).map();
}

}  // namespace hymn
