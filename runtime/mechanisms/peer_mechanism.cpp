#include "runtime/mechanisms/peer_mechanism.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <random>

#include "base/keep_for_ever.hpp"
#include "collectives/cuda/kernel_image.hpp"
#include "collectives/cuda/peer_algorithm.hpp"
#include "collectives/cuda/peer_rules.hpp"
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
  std::string why_not;       ///< it has no window; empty: it has
  std::uint32_t number = 0;  ///< that its window holds
  WindowTicket window{};

  static Offer read(const Bytes& said) {
    Unpacker unpacker(said);
    Offer offer;
    offer.is_wanted = unpacker.number() != 0;
    offer.has_gpu = unpacker.number() != 0;
    offer.why_not = unpacker.text();
    offer.number = static_cast<std::uint32_t>(unpacker.number());
    offer.window = WindowTicket::read(unpacker.bytes());
    return offer;
  }
  Bytes packed() const {
    Packer packer;
    packer.number(is_wanted ? 1 : 0).number(has_gpu ? 1 : 0);
    packer.text(why_not).number(number).bytes(window.packed());
    return packer.packed();
  }
};

void add_gpu_mechanisms(std::vector<std::unique_ptr<Mechanism>>& mechanisms,
                        std::shared_ptr<Exchange> exchange, GpuLibraries libraries,
                        const PathPolicy& path, const Config& config) {
  auto nccl =
      std::make_unique<NcclMechanism>(std::move(exchange), std::move(libraries), path, config);
  auto peer = std::make_unique<PeerMechanism>(*nccl, path, config.p2p_compat);
  mechanisms.push_back(std::move(nccl));
  mechanisms.push_back(std::move(peer));
}

bool PeerMechanism::is_wanted(const PathPolicy& path, std::size_t ranks) const {
  if (!path.allows(paths::cuda_p2p)) return false;
  if (peer_use(path, compat_) != PeerUse::measured) return true;
  return tuning_ != nullptr && tuning_->knows(paths::cuda_p2p, static_cast<int>(ranks));
}

bool PeerMechanism::ends_together() const {
  for (std::size_t ranks = 2; ranks <= cuda::most_peers; ++ranks)
    if (is_wanted(path_, ranks)) return true;
  return false;
}

void PeerMechanism::placed(const JobMap& job) {
  rank_ = job.place().rank;
  host_ = fmt::format("{}, host {}", job.host_name, job.host);
  for (const RankPlace& place : job.places)
    if (place.gpu >= 0) with_gpu_.insert(place.rank);
}

// By what this rank knows of its own host.
std::string PeerMechanism::why_not(const Membership& membership) const {
  const std::size_t size = membership.ranks.size();
  if (nccl_.gpu() == nullptr) return fmt::format("rank {} has no GPU", rank_);
  if (cuda::kernel_image().empty()) return "this build of hymn has no kernels for GPUs";
  if (size < 2) return "one rank alone has no peer";
  if (size > cuda::most_peers)
    return fmt::format("{} ranks, and at most {} can work together", size, cuda::most_peers);
  for (const int member : membership.ranks)
    if (!with_gpu_.contains(member))
      return fmt::format("rank {} is not on the host of rank {}, or has no GPU", member, rank_);
  return "";
}

Bytes PeerMechanism::offer(const Membership& membership, const GroupOptions& options) {
  Offer mine;
  mine.is_wanted = is_wanted(policy_of(options, path_), membership.ranks.size());
  mine.has_gpu = nccl_.gpu() != nullptr;
  mine.why_not = why_not(membership);
  if (!mine.is_wanted || !mine.why_not.empty()) return mine.packed();
  try {
    auto window = std::make_shared<PeerWindow>(nccl_.gpu(), cuda::window_bytes(peer_slot_bytes));
    mine.number = random_number();
    window->write(offsetof(cuda::WindowHead, number), std::as_bytes(std::span(&mine.number, 1)));
    mine.window = window->ticket();
    mine.window.rank = rank_;
    mine.window.host = host_;
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
    std::vector<Offer> offers;
    for (const Bytes& word : said) offers.push_back(Offer::read(word));
    for (const Offer& offer : offers)
      if (reason.empty()) reason = offer.why_not;
    // All members have the same settings.
    if (reason.empty() && !offers.front().is_wanted)
      reason = not_measured(static_cast<int>(membership.ranks.size()));
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
  for (const Offer& offer : offers) {
    tickets.push_back(offer.window);
    numbers.push_back(offer.number);
  }
  const auto place = std::find(membership.ranks.begin(), membership.ranks.end(), rank_);
  const auto me = static_cast<std::size_t>(place - membership.ranks.begin());
  auto windows = std::make_shared<PeerWindows>(nccl_.gpu());
  if (std::string why = windows->open(tickets, me); !why.empty()) return why;
  std::lock_guard lock(mutex_);
  const auto channel = std::make_shared<PeerChannel>(PeerChannelParts{
      .gpu = nccl_.gpu(),
      .queue = nccl_.queue(),
      .own = offered_.at(membership.uid),
      .windows = std::move(windows),
      .members = membership.ranks,
      .shape = {.rank = static_cast<int>(me), .size = static_cast<int>(membership.ranks.size())},
      .slot_bytes = peer_slot_bytes});
  std::string why = channel->probe(numbers, Deadline::after(patience));
  if (why.empty()) open_[membership.uid] = channel;
  return why;
}

// The first reason in the order of the members: all find the same.
void PeerMechanism::open(NewGroup& group, std::span<const Bytes> said,
                         std::span<const Bytes> answers) {
  std::vector<Offer> offers;
  for (const Bytes& word : said) offers.push_back(Offer::read(word));
  std::string reason;
  for (const Bytes& word : answers)
    if (reason.empty()) reason = Unpacker(word).text();
  const bool any_gpu =
      std::any_of(offers.begin(), offers.end(), [](const Offer& o) { return o.has_gpu; });
  std::lock_guard lock(mutex_);
  offered_.erase(group.membership.uid);
  if (reason.empty()) {
    add_peer_algorithms(group.algorithms, open_.at(group.membership.uid));
    return;
  }
  if (const auto found = open_.find(group.membership.uid); found != open_.end()) {
    kept_.push_back(std::move(found->second));  // others may have opened its window
    open_.erase(found);
  }
  if (any_gpu) add_no_peer_algorithms(group.algorithms, reason);
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
