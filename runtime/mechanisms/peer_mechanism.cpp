#include "runtime/mechanisms/peer_mechanism.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <random>

#include "base/keep_for_ever.hpp"
#include "collectives/cuda/hierarchical_algorithm.hpp"
#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/message_algorithm.hpp"
#include "collectives/cuda/peer_algorithm.hpp"
#include "collectives/cuda/peer_rules.hpp"
#include "collectives/pairwise/exchange_port.hpp"
#include "collectives/planner/peer_use.hpp"
#include "collectives/planner/tuning_table.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

std::uint32_t random_number() { return std::random_device()(); }

}  // namespace

/// What a member says of itself.
struct PeerMechanism::Offer {
  bool is_wanted = false;
  bool has_gpu = false;
  int host = 0;              ///< index in the world's layout
  std::string why_not;       ///< it has no window; empty: it has
  std::uint32_t number = 0;  ///< that its window holds
  WindowTicket window{};

  static Offer read(const Bytes& said) {
    Unpacker unpacker(said);
    Offer offer;
    offer.is_wanted = unpacker.number() != 0;
    offer.has_gpu = unpacker.number() != 0;
    offer.host = static_cast<int>(unpacker.number());
    offer.why_not = unpacker.text();
    offer.number = static_cast<std::uint32_t>(unpacker.number());
    offer.window = WindowTicket::read(unpacker.bytes());
    return offer;
  }
  Bytes packed() const {
    Packer packer;
    packer.number(is_wanted ? 1 : 0).number(has_gpu ? 1 : 0);
    packer.number(static_cast<std::uint64_t>(host));
    packer.text(why_not).number(number).bytes(window.packed());
    return packer.packed();
  }
  static std::vector<Offer> read_all(std::span<const Bytes> said) {
    std::vector<Offer> offers;
    for (const Bytes& word : said) offers.push_back(read(word));
    return offers;
  }
  /// Where the members are, as the one of that group rank sees it.
  static HostMap hosts_of(const std::vector<Offer>& offers, int rank) {
    std::vector<int> host_of;
    for (const Offer& offer : offers) host_of.push_back(offer.host);
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

/// Those that hold the same shares as the rank: one of each host, as ascending group ranks.
std::vector<int> column_of(const HostMap& hosts, int rank) {
  std::vector<int> column;
  for (int host = 0; host < hosts.hosts(); ++host)
    column.push_back(hosts.rank_at(hosts.first(host) + hosts.index_of(rank)));
  std::sort(column.begin(), column.end());
  return column;
}

}  // namespace

void add_gpu_mechanisms(std::vector<std::unique_ptr<Mechanism>>& mechanisms,
                        std::shared_ptr<Exchange> exchange, GpuLibraries libraries,
                        const PathPolicy& path, const Config& config) {
  auto nccl = std::make_unique<NcclMechanism>(exchange, std::move(libraries), path, config);
  auto peer = std::make_unique<PeerMechanism>(*nccl, std::move(exchange), path, config.p2p_compat);
  mechanisms.push_back(std::move(nccl));
  mechanisms.push_back(std::move(peer));
}

bool PeerMechanism::is_wanted(const PathPolicy& path, std::size_t ranks, bool one_host) const {
  if (!path.allows(paths::cuda_p2p)) return false;
  if (peer_use(path, compat_) != PeerUse::measured) return true;
  return tuning_ != nullptr && tuning_->knows(paths::cuda_p2p, static_cast<int>(ranks), one_host);
}

std::string PeerMechanism::why_no_messages(const GroupOptions& options) const {
  switch (peer_use(policy_of(options, path_), compat_)) {
    case PeerUse::named:
      return "";
    case PeerUse::c10d:
      return "HYMN_P2P_COMPAT=c10d: only all_reduce of bfloat16 with sum";
    default:
      return "messages take it only where HYMN_PATH names cuda_p2p";
  }
}

bool PeerMechanism::ends_together() const {
  if (is_wanted(path_, /*ranks=*/2, /*one_host=*/true)) return true;
  return path_.allows(paths::cuda_p2p) && tuning_ != nullptr && tuning_->knows(paths::cuda_p2p);
}

void PeerMechanism::placed(const JobMap& job) {
  rank_ = job.place().rank;
  host_ = job.host;
  host_name_ = fmt::format("{}, host {}", job.host_name, job.host);
  for (const RankPlace& place : job.places) {
    on_host_.insert(place.rank);
    if (place.gpu >= 0) with_gpu_.insert(place.rank);
  }
}

std::vector<int> PeerMechanism::members_here(const Membership& membership) const {
  std::vector<int> here;
  for (const int member : membership.ranks)
    if (on_host_.contains(member)) here.push_back(member);
  return here;
}

// By what this rank knows of its own host.
std::string PeerMechanism::why_not(const Membership& membership) const {
  const std::vector<int> here = members_here(membership);
  if (nccl_.gpu() == nullptr) return fmt::format("rank {} has no GPU", rank_);
  if (cuda::kernel_image().empty()) return "this build of hymn has no kernels for GPUs";
  if (membership.ranks.size() < 2) return "one rank alone has no peer";
  if (compat_ == P2pCompat::c10d && here.size() < membership.ranks.size())
    return std::string(c10d_inside_a_host);
  if (here.size() < 2) return fmt::format("rank {} is alone on its host", rank_);
  if (here.size() > cuda::most_peers)
    return fmt::format("{} ranks of a host, and at most {} can work together", here.size(),
                       cuda::most_peers);
  for (const int member : here)
    if (!with_gpu_.contains(member)) return fmt::format("rank {} has no GPU", member);
  return "";
}

Bytes PeerMechanism::offer(const Membership& membership, const GroupOptions& options) {
  Offer mine;
  const bool one_host = members_here(membership).size() == membership.ranks.size();
  mine.is_wanted = is_wanted(policy_of(options, path_), membership.ranks.size(), one_host);
  mine.has_gpu = nccl_.gpu() != nullptr;
  mine.host = host_;
  mine.why_not = why_not(membership);
  if (!mine.is_wanted || !mine.why_not.empty()) return mine.packed();
  try {
    const std::size_t boxes = one_host && why_no_messages(options).empty() ? peer_box_bytes : 0;
    auto window = std::make_shared<PeerWindow>(
        nccl_.gpu(), cuda::window_bytes(peer_slot_bytes, boxes, membership.ranks.size()));
    mine.number = random_number();
    window->write(offsetof(cuda::WindowHead, number), std::as_bytes(std::span(&mine.number, 1)));
    mine.window = window->ticket();
    mine.window.rank = rank_;
    mine.window.host = host_name_;
    std::lock_guard lock(mutex_);
    offered_[membership.uid] = std::move(window);
  } catch (const Error& error) {
    mine.why_not = error.problem();
  }
  return mine.packed();
}

Bytes PeerMechanism::answer(const Membership& membership, std::span<const Bytes> said,
                            Duration patience) {
  std::string reason;
  try {
    const std::vector<Offer> offers = Offer::read_all(said);
    for (const Offer& offer : offers)
      if (reason.empty()) reason = offer.why_not;
    // All members have the same settings.
    if (reason.empty() && !offers.front().is_wanted)
      reason = not_measured(static_cast<int>(membership.ranks.size()));
    if (reason.empty()) reason = unevenness_of(Offer::hosts_of(offers, 0));
    if (reason.empty()) reason = connect(membership, offers, patience);
  } catch (const std::exception& error) {
    reason = error.what();
  }
  if (!reason.empty()) {
    std::lock_guard lock(mutex_);
    offered_.erase(membership.uid);
  }
  Packer packer;
  packer.text(reason);
  return packer.packed();
}

std::string PeerMechanism::connect(const Membership& membership, const std::vector<Offer>& offers,
                                   Duration patience) {
  std::vector<WindowTicket> tickets;
  std::vector<std::uint32_t> numbers;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    if (!on_host_.contains(membership.ranks[i])) continue;
    tickets.push_back(offers[i].window);
    numbers.push_back(offers[i].number);
  }
  const std::vector<int> here = members_here(membership);
  const auto me =
      static_cast<std::size_t>(std::find(here.begin(), here.end(), rank_) - here.begin());
  auto windows = std::make_shared<PeerWindows>(nccl_.gpu());
  if (std::string why = windows->open(tickets, me); !why.empty()) return why;
  std::lock_guard lock(mutex_);
  const auto channel = std::make_shared<PeerChannel>(PeerChannelParts{
      .gpu = nccl_.gpu(),
      .queue = nccl_.queue(),
      .own = offered_.at(membership.uid),
      .windows = std::move(windows),
      .members = here,
      .shape = {.rank = static_cast<int>(me), .size = static_cast<int>(here.size())},
      .slot_bytes = peer_slot_bytes,
      .box_bytes = peer_box_bytes});
  std::string why = channel->probe(numbers, Deadline::after(patience));
  if (why.empty()) open_[membership.uid] = channel;
  return why;
}

// The first reason in the order of the members: all find the same.
void PeerMechanism::open(NewGroup& group, std::span<const Bytes> said,
                         std::span<const Bytes> answers) {
  const std::vector<Offer> offers = Offer::read_all(said);
  std::string reason;
  for (const Bytes& word : answers)
    if (reason.empty()) reason = Unpacker(word).text();
  std::shared_ptr<PeerChannel> channel;
  {
    std::lock_guard lock(mutex_);
    offered_.erase(group.membership.uid);
    const auto found = open_.find(group.membership.uid);
    if (reason.empty()) {
      channel = found->second;
    } else if (found != open_.end()) {
      kept_.push_back(std::move(found->second));  // others may have opened its window
      open_.erase(found);
    }
  }
  if (std::none_of(offers.begin(), offers.end(), [](const Offer& o) { return o.has_gpu; })) return;
  const HostMap hosts = Offer::hosts_of(offers, group.shape.rank);
  if (hosts.hosts() > 1) {
    const std::string apart = fmt::format("the ranks are on {} hosts", hosts.hosts());
    add_no_peer_algorithms(group.algorithms, apart);
    add_messages(group, nullptr, apart);
    add_hierarchical(group, hosts, channel, reason);
    return;
  }
  add_messages(group, channel, reason);
  if (channel != nullptr)
    add_peer_algorithms(group.algorithms, channel);
  else
    add_no_peer_algorithms(group.algorithms, reason);
  add_hierarchical(group, hosts, nullptr, "all ranks are on one host");
}

// Messages have no costs: where the setting names this path it comes before the others. What these
// give up is then not to be sent on by kernels behind it, which end like those of what is whole.
void PeerMechanism::add_messages(NewGroup& group, const std::shared_ptr<PeerChannel>& channel,
                                 std::string reason) const {
  if (std::string why_not = why_no_messages(group.options); !why_not.empty())
    reason = std::move(why_not);
  const bool is_usable = reason.empty();
  if (is_usable && group.nccl != nullptr)
    group.nccl->set_before_abort([windows = std::weak_ptr(channel)] {
      if (const auto held = windows.lock()) held->abort();
    });
  group.algorithms.insert(group.algorithms.begin(),
                          make_peer_messages(is_usable ? channel : nullptr, std::move(reason)));
}

void PeerMechanism::add_hierarchical(NewGroup& group, const HostMap& hosts,
                                     const std::shared_ptr<PeerChannel>& channel,
                                     const std::string& reason) const {
  const auto add = [&](std::string_view name, std::string why_not, const auto& make_bridge) {
    group.algorithms.push_back(why_not.empty()
                                   ? make_hierarchical_peer(name, channel, make_bridge())
                                   : make_no_hierarchical_peer(name, std::move(why_not)));
  };
  const std::vector<int> column =
      channel != nullptr ? column_of(hosts, group.shape.rank) : std::vector<int>{};
  std::string no_nccl = reason;
  if (no_nccl.empty() && group.nccl == nullptr) no_nccl = "the group cannot use NCCL";
  add(hierarchical_nccl, std::move(no_nccl), [&] {
    std::vector<int> members;
    for (const int rank : column)
      members.push_back(group.membership.ranks[static_cast<std::size_t>(rank)]);
    // What NCCL gives up ends like what is whole: kernels behind it have to hear of it first.
    return make_nccl_bridge(
        group.nccl->column_of(std::move(members), [channel] { channel->abort(); }));
  });
  std::string no_staging = reason;
  if (no_staging.empty() && !policy_of(group.options, path_).allows(paths::staged))
    no_staging = "the path setting forbids staged";
  add(hierarchical_staged, std::move(no_staging), [&] {
    const auto place = std::find(column.begin(), column.end(), group.shape.rank);
    return make_staged_bridge(
        nccl_.staging(),
        group.port != nullptr
            ? group.port
            : make_exchange_port(exchange_, group.membership.ranks, group.membership.uid),
        column, static_cast<int>(place - column.begin()));
  });
}

// Peers may still read what this rank has shown last.
void PeerMechanism::close(const Membership& membership, bool clean) {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(membership.uid);
  if (found == open_.end()) return;
  if (!clean) found->second->abort();
  kept_.push_back(std::move(found->second));
  open_.erase(found);
}

// Where peers may not have ended, their GPUs may still be reading: then the windows are left to the
// driver, which frees them with the process.
void PeerMechanism::shut_down(WorldEnd end) {
  std::lock_guard lock(mutex_);
  for (auto& [uid, channel] : open_) kept_.push_back(std::move(channel));
  open_.clear();
  if (end == WorldEnd::apart || !ends_together())
    for (auto& channel : kept_) {
      channel->abort();
      keep_for_ever(std::move(channel));
    }
  kept_.clear();
}

}  // namespace hymn
