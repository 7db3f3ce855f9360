#include "runtime/mechanisms/peer_mechanism.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <random>

#include "base/keep_for_ever.hpp"
#include "collectives/cuda/hierarchical_algorithm.hpp"
#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/peer_algorithm.hpp"
#include "collectives/cuda/peer_models.hpp"
#include "collectives/cuda/peer_rules.hpp"
#include "collectives/nccl/beside_windows.hpp"
#include "collectives/nccl/nccl_bridge.hpp"
#include "collectives/nccl/nccl_models.hpp"
#include "collectives/planner/peer_use.hpp"
#include "collectives/planner/tuning_table.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

std::uint32_t random_word() { return std::random_device()(); }

}  // namespace

/// What a member says of itself.
struct PeerMechanism::PeerOffer {
  bool is_wanted = false;
  bool has_gpu = false;
  int host = 0;         ///< index in the world's layout
  std::string why_not;  ///< it has no staging buffer; empty: it has
  /// The group for which it has set staging buffers aside; nothing: it has none.
  std::optional<std::uint64_t> made_for;
  std::uint32_t number = 0;  ///< that its staging buffer holds
  IpcStagingTicket staging_buffer{};

  static PeerOffer read(Word said) {
    Unpacker unpacker(said);
    PeerOffer offer;
    offer.is_wanted = unpacker.number() != 0;
    offer.has_gpu = unpacker.number() != 0;
    offer.host = static_cast<int>(unpacker.number());
    offer.why_not = unpacker.text();
    const bool has_set_aside = unpacker.number() != 0;
    if (const std::uint64_t uid = unpacker.number(); has_set_aside) offer.made_for = uid;
    offer.number = static_cast<std::uint32_t>(unpacker.number());
    if (const Bytes ticket = unpacker.bytes(); !ticket.empty())
      offer.staging_buffer = IpcStagingTicket::read(ticket);
    return offer;
  }
  Bytes packed() const {
    Packer packer;
    packer.number(is_wanted ? 1 : 0).number(has_gpu ? 1 : 0);
    packer.number(static_cast<std::uint64_t>(host));
    packer.text(why_not)
        .number(made_for ? 1 : 0)
        .number(made_for.value_or(0))
        .number(number)
        .bytes(is_wanted && why_not.empty() ? staging_buffer.packed() : Bytes());
    return packer.packed();
  }
  static std::vector<PeerOffer> read_all(std::span<const Word> said) {
    std::vector<PeerOffer> offers;
    for (const Word word : said) offers.push_back(read(word));
    return offers;
  }
  /// Where the members are, as the one of that group rank sees it.
  static HostMap hosts_of(const std::vector<PeerOffer>& offers, int rank) {
    std::vector<int> host_of;
    for (const PeerOffer& offer : offers) host_of.push_back(offer.host);
    return {host_of, rank};
  }
};

namespace {

/// Why hosts with so many members cannot work as one; empty: they can.
std::string unevenness_of(const HostMap& hosts) {
  for (int host = 1; host < hosts.hosts(); ++host)
    if (hosts.members_on(host) != hosts.members_on(0))
      return fmt::format(
          "the hosts have different numbers of ranks: {} are with rank {}, {} with "
          "rank {}",
          hosts.members_on(0), hosts.rank_at(0), hosts.members_on(host),
          hosts.rank_at(hosts.first(host)));
  return "";
}

/// How many blocks a kernel may have, so that those of all ranks that share a GPU, and of several
/// groups of each, fit there together: one that waits for its turn would be waited for by the
/// others. As much as one more group would get is left to NCCL, whose kernels wait, too.
unsigned blocks_that_fit(const std::vector<IpcStagingTicket>& tickets) {
  unsigned most = cuda::most_peer_blocks;
  for (const IpcStagingTicket& ticket : tickets) {
    const int kernels = std::max(ticket.sharers, 1) * (cuda::peer_groups_at_once + 1);
    const int fit = cuda::peer_blocks_of_multiprocessor * ticket.multiprocessors / kernels;
    most = std::min(most, static_cast<unsigned>(std::max(fit, 1)));
  }
  return most;
}

/// Those that hold the same shares as the rank: one of each host, as ascending group ranks.
std::vector<int> column_of(const HostMap& hosts, int rank) {
  std::vector<int> column;
  for (int host = 0; host < hosts.hosts(); ++host)
    column.push_back(hosts.rank_at(hosts.first(host) + hosts.index_of(rank)));
  std::sort(column.begin(), column.end());
  return column;
}

}  // namespace

void add_gpu_mechanisms(std::vector<std::unique_ptr<Mechanism>>& mechanisms, GpuLibraries libraries,
                        const PathPolicy& path, const Config& config) {
  auto nccl = std::make_unique<NcclMechanism>(std::move(libraries), path, config);
  auto peer = std::make_unique<PeerMechanism>(*nccl, path, config.p2p_compat);
  mechanisms.push_back(std::move(nccl));
  mechanisms.push_back(std::move(peer));
}

bool PeerMechanism::is_wanted(const PathPolicy& path, std::size_t ranks, bool one_host) const {
  if (!path.allows(paths::cuda_p2p)) return false;
  if (peer_use(path, compat_) != PeerUse::measured) return true;
  return tuning_ != nullptr && tuning_->knows(paths::cuda_p2p, static_cast<int>(ranks), one_host);
}

bool PeerMechanism::ends_together() const {
  if (is_wanted(path_, /*ranks=*/2, /*one_host=*/true)) return true;
  return path_.allows(paths::cuda_p2p) && tuning_ != nullptr && tuning_->knows(paths::cuda_p2p);
}

void PeerMechanism::placed(const JobMap& job) {
  home_.rank = job.place().rank;
  home_.host = job.host;
  home_.gpu_sharers = job.place().gpu_sharers;
  home_.host_name = fmt::format("{}, host {}", job.host_name, job.host);
  for (const RankPlace& place : job.places) {
    home_.on_host.insert(place.rank);
    if (place.gpu >= 0) home_.with_gpu.insert(place.rank);
  }
}

std::vector<int> PeerMechanism::members_here(const Membership& membership) const {
  std::vector<int> here;
  for (const int member : membership.ranks)
    if (home_.on_host.contains(member)) here.push_back(member);
  return here;
}

// By what this rank knows of its own host.
std::string PeerMechanism::why_not(const Membership& membership,
                                   const GroupOptions& options) const {
  const std::vector<int> here = members_here(membership);
  if (nccl_.own_gpu() == nullptr) return fmt::format("rank {} has no GPU", home_.rank);
  if (options.gpu && *options.gpu != nccl_.own_gpu()->gpu->index())
    return fmt::format("rank {} names GPU {}, and peer memory serves the ranks' own alone",
                       home_.rank, *options.gpu);
  if (cuda::kernel_image().empty()) return "this build of hymn has no GPU kernels";
  if (membership.ranks.size() < 2) return "one rank alone has no peer";
  if (compat_ == P2pCompat::c10d && here.size() < membership.ranks.size())
    return std::string(c10d_inside_a_host);
  if (here.size() < 2) return fmt::format("rank {} is alone on its host", home_.rank);
  if (here.size() > cuda::most_peers)
    return fmt::format("{} ranks of a host, and at most {} can work together", here.size(),
                       cuda::most_peers);
  for (const int member : here)
    if (!home_.with_gpu.contains(member)) return fmt::format("rank {} has no GPU", member);
  return "";
}

Bytes PeerMechanism::offer(const Membership& membership, const GroupOptions& options) {
  PeerOffer mine;
  const bool one_host = members_here(membership).size() == membership.ranks.size();
  mine.is_wanted = is_wanted(policy_of(options, path_), membership.ranks.size(), one_host);
  mine.has_gpu = options.gpu || nccl_.own_gpu() != nullptr;
  mine.host = home_.host;
  mine.why_not = why_not(membership, options);
  if (!mine.is_wanted || !mine.why_not.empty()) return mine.packed();
  try {
    std::shared_ptr<IpcStagingBuffer> staging_buffer;
    {
      std::lock_guard lock(mutex_);
      if (const Reach* const reach = set_aside(membership)) mine.made_for = reach->made_for;
      staging_buffer = take_spare();
    }
    // Another rank may have nothing set aside, or something else.
    if (staging_buffer == nullptr)
      staging_buffer = std::make_shared<IpcStagingBuffer>(nccl_.own_gpu()->gpu,
                                                          cuda::staging_bytes(peer_slot_bytes));
    mine.number = random_word();
    staging_buffer->write(offsetof(cuda::StagingHead, number),
                          std::as_bytes(std::span(&mine.number, 1)));
    mine.staging_buffer = staging_buffer->ticket();
    mine.staging_buffer.rank = home_.rank;
    mine.staging_buffer.host = home_.host_name;
    mine.staging_buffer.sharers = home_.gpu_sharers;
    std::lock_guard lock(mutex_);
    offered_[membership.uid] = std::move(staging_buffer);
  } catch (const Error& error) {
    mine.why_not = error.problem();
  }
  return mine.packed();
}

Bytes PeerMechanism::answer(const Membership& membership, std::span<const Word> said,
                            Duration patience) {
  std::string reason;
  try {
    const std::vector<PeerOffer> offers = PeerOffer::read_all(said);
    for (const PeerOffer& offer : offers)
      if (reason.empty()) reason = offer.why_not;
    // All members have the same settings.
    if (reason.empty() && !offers.front().is_wanted)
      reason = not_measured(static_cast<int>(membership.ranks.size()));
    if (reason.empty()) reason = unevenness_of(PeerOffer::hosts_of(offers, 0));
    if (reason.empty() && !takes_up(membership, offers))
      reason = connect(membership, offers, patience);
  } catch (const std::exception& error) {
    reason = error.what();
  }
  {
    std::lock_guard lock(mutex_);
    put_back(membership.uid);
    if (!reason.empty()) offered_.erase(membership.uid);
  }
  Packer packer;
  packer.text(reason);
  return packer.packed();
}

const PeerMechanism::Reach* PeerMechanism::set_aside(const Membership& membership) {
  auto oldest = idle_.end();
  for (auto each = idle_.begin(); each != idle_.end(); ++each)
    if (each->ranks == membership.ranks &&
        (oldest == idle_.end() || each->made_for < oldest->made_for))
      oldest = each;
  if (oldest == idle_.end()) return nullptr;
  Reach& reach = set_aside_[membership.uid] = std::move(*oldest);
  idle_.erase(oldest);
  return &reach;
}

std::shared_ptr<IpcStagingBuffer> PeerMechanism::take_spare() {
  if (spare_.empty()) return nullptr;
  std::shared_ptr<IpcStagingBuffer> staging_buffer = std::move(spare_.back());
  spare_.pop_back();
  return staging_buffer;
}

void PeerMechanism::put_back(std::uint64_t uid) {
  if (auto found = set_aside_.extract(uid)) idle_.push_back(std::move(found.mapped()));
}

bool PeerMechanism::takes_up(const Membership& membership, const std::vector<PeerOffer>& offers) {
  const auto& first = offers.front().made_for;
  if (!first || std::any_of(offers.begin(), offers.end(),
                            [&](const PeerOffer& o) { return o.made_for != first; }))
    return false;
  std::lock_guard lock(mutex_);
  spare_.push_back(std::move(offered_.extract(membership.uid).mapped()));
  open_[membership.uid] = std::move(set_aside_.extract(membership.uid).mapped());
  return true;
}

std::string PeerMechanism::connect(const Membership& membership,
                                   const std::vector<PeerOffer>& offers, Duration patience) {
  std::vector<IpcStagingTicket> tickets;
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (!home_.on_host.contains(membership.ranks[i])) continue;
    tickets.push_back(offers[i].staging_buffer);
    numbers.push_back(offers[i].number);
  }
  const std::vector<int> here = members_here(membership);
  const auto me =
      static_cast<std::size_t>(std::find(here.begin(), here.end(), home_.rank) - here.begin());
  auto staging_buffers = std::make_shared<PeerStagingBuffers>(nccl_.own_gpu()->gpu);
  if (std::string why = staging_buffers->open(tickets, me); !why.empty()) return why;
  std::lock_guard lock(mutex_);
  const auto channel = std::make_shared<PeerChannel>(PeerChannelParts{
      .gpu = nccl_.own_gpu()->gpu,
      .queue = nccl_.queue(),
      .places = places_,
      .own = offered_.at(membership.uid),
      .staging_buffers = std::move(staging_buffers),
      .members = here,
      .shape = {.rank = static_cast<int>(me), .size = static_cast<int>(here.size())},
      .slot_bytes = peer_slot_bytes,
      .most_blocks = blocks_that_fit(tickets)});
  std::string why = channel->probe(numbers, Deadline::after(patience));
  if (why.empty()) open_[membership.uid] = {membership.uid, membership.ranks, channel};
  return why;
}

// The first reason in the order of the members: all find the same.
void PeerMechanism::open(NewGroup& group, std::span<const Word> said,
                         std::span<const Word> answers) {
  const std::vector<PeerOffer> offers = PeerOffer::read_all(said);
  std::string reason;
  for (const Word word : answers)
    if (reason.empty()) reason = Unpacker(word).text();
  std::shared_ptr<PeerChannel> channel;
  {
    std::lock_guard lock(mutex_);
    offered_.erase(group.membership.uid);
    const auto found = open_.find(group.membership.uid);
    if (reason.empty()) {
      channel = found->second.channel;
    } else if (found != open_.end()) {
      kept_.push_back(std::move(found->second));  // others may have opened its staging buffer
      open_.erase(found);
    }
  }
  if (std::none_of(offers.begin(), offers.end(), [](const PeerOffer& o) { return o.has_gpu; }))
    return;
  const auto nccl = group.given<NcclChannel>();
  if (channel != nullptr && nccl != nullptr) go_together(channel, nccl);
  const HostMap hosts = PeerOffer::hosts_of(offers, group.shape.rank);
  if (hosts.hosts() > 1) {
    const std::string apart = fmt::format("the ranks are on {} hosts", hosts.hosts());
    add_no_peer_algorithms(group.algorithms, apart);
    add_hierarchical(group, hosts, channel, reason);
    return;
  }
  if (channel != nullptr)
    add_peer_algorithms(group.algorithms, channel);
  else
    add_no_peer_algorithms(group.algorithms, reason);
  add_hierarchical(group, hosts, nullptr, "all ranks are on one host");
}

void PeerMechanism::add_hierarchical(NewGroup& group, const HostMap& hosts,
                                     const std::shared_ptr<PeerChannel>& channel,
                                     const std::string& reason) const {
  const auto add = [&](const AlgorithmModel& model, std::string why_not, const auto& make_bridge) {
    if (why_not.empty())
      group.algorithms.push_back(make_hierarchical_peer(model, channel, make_bridge()));
    else
      group.algorithms.push_back(
          std::make_unique<AbsentAlgorithm>(model, model.serves, std::move(why_not)));
  };
  const std::vector<int> column =
      channel != nullptr ? column_of(hosts, group.shape.rank) : std::vector<int>{};
  const auto nccl = group.given<NcclChannel>();
  std::string no_nccl = reason;
  if (no_nccl.empty() && nccl == nullptr) no_nccl = "the group cannot use NCCL";
  add(nccl_models::hierarchical_nccl, std::move(no_nccl), [&] {
    std::vector<int> members;
    for (const int rank : column)
      members.push_back(group.membership.ranks[static_cast<std::size_t>(rank)]);
    return make_nccl_bridge(nccl->column_of(std::move(members)),
                            nccl_.reduces_in_float32(group.options));
  });
  std::string no_staging = reason;
  if (no_staging.empty() && !policy_of(group.options, path_).allows(paths::staged))
    no_staging = "the path setting forbids staged";
  add(peer_models::hierarchical_staged, std::move(no_staging), [&] {
    const auto place = std::find(column.begin(), column.end(), group.shape.rank);
    std::vector<int> other_hosts = column;
    std::erase(other_hosts, group.shape.rank);
    return make_staged_bridge(nccl_.own_gpu()->staging, group.transports.reaching(other_hosts),
                              column, static_cast<int>(place - column.begin()));
  });
}

// Peers may still read what this rank has shown last.
void PeerMechanism::close(const Membership& membership, bool clean) {
  std::lock_guard lock(mutex_);
  auto found = open_.extract(membership.uid);
  if (!found) return;
  Reach& reach = found.mapped();
  if (!clean) reach.channel->abort();
  (reach.channel->is_sound() ? idle_ : kept_).push_back(std::move(reach));
}

// Where peers may not have ended, their GPUs may still be reading: then the staging buffers are
// left to the driver, which frees them with the process.
void PeerMechanism::shut_down(WorldEnd end) {
  std::lock_guard lock(mutex_);
  for (auto* const by_uid : {&open_, &set_aside_}) {
    for (auto& [uid, reach] : *by_uid) kept_.push_back(std::move(reach));
    by_uid->clear();
  }
  std::move(idle_.begin(), idle_.end(), std::back_inserter(kept_));
  idle_.clear();
  if (end == WorldEnd::apart || !ends_together())
    for (Reach& reach : kept_) {
      reach.channel->abort();
      keep_for_ever(std::move(reach.channel));
    }
  kept_.clear();
}

}  // namespace hymn
