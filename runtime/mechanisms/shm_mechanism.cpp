#include "runtime/mechanisms/shm_mechanism.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "collectives/shm/shm_algorithms.hpp"
#include "collectives/shm/shm_models.hpp"
#include "hymn/error.hpp"
#include "p2p/part_port.hpp"
#include "p2p/shm/shm_port.hpp"
#include "topology/core_use.hpp"

namespace hymn {
namespace {

// What a member says of its host in its offer, and what the maker adds.
struct ShmOffer {
  int host = 0;
  Bytes listener;       ///< where the maker can reach it
  std::string problem;  ///< why the maker could not make it
  Bytes ticket;

  static ShmOffer read(Word said) {
    Unpacker unpacker(said);
    ShmOffer offer;
    offer.host = static_cast<int>(unpacker.number());
    offer.listener = unpacker.bytes();
    offer.problem = unpacker.text();
    offer.ticket = unpacker.bytes();
    return offer;
  }
  Bytes packed() const {
    Packer packer;
    packer.number(static_cast<std::uint64_t>(host)).bytes(listener).text(problem).bytes(ticket);
    return packer.packed();
  }
};

/// A problem whatever its numbers.
std::string without_numbers(std::string problem) {
  std::erase_if(problem, [](char letter) { return letter >= '0' && letter <= '9'; });
  return problem;
}

/// What stands for all that shared memory would do.
void add_absent(Algorithms& algorithms, const std::string& reason) {
  const auto add = [&](const AlgorithmModel& model, OpTypes serves) {
    algorithms.push_back(std::make_unique<AbsentAlgorithm>(model, serves, reason));
  };
  add(shm_models::pairwise, shm_models::pairwise.serves);
  add(shm_models::rings, all_of_messages);
}

/// With peers by group rank, where only some members are on this host.
std::shared_ptr<MessagePort> port_of(const std::shared_ptr<ShmMail>& mail, int size) {
  const std::vector<int>& group_ranks = mail->channel().group_ranks();
  std::vector<int> places(static_cast<std::size_t>(size), -1);
  for (std::size_t place = 0; place < group_ranks.size(); ++place)
    places[static_cast<std::size_t>(group_ranks[place])] = static_cast<int>(place);
  return make_part_port(make_shm_port(mail), std::move(places));
}

}  // namespace

ShmMechanism::ShmMechanism(std::unique_ptr<RegionSource> source, Logger logger)
    : source_(std::move(source)), logger_(std::move(logger)) {}

void ShmMechanism::placed(const JobMap& job) {
  host_ = job.host;
  me_ = job.places[job.me].rank;
  const Machine& machine = *job.machines[static_cast<std::size_t>(
      job.world.hosts[static_cast<std::size_t>(job.host)].machine)];
  for (const RankPlace& place : job.places)
    cores_of_rank_.emplace(place.rank, cores_of(machine, place.cpus));
}

ShmMechanism::Neighbours ShmMechanism::neighbours_in(const Membership& membership) const {
  Neighbours found;
  // In the order of the group.
  for (std::size_t member = 0; member < membership.ranks.size(); ++member) {
    const int rank = membership.ranks[member];
    if (!cores_of_rank_.contains(rank)) continue;
    if (rank == me_) found.me = static_cast<int>(found.group_ranks.size());
    found.group_ranks.push_back(static_cast<int>(member));
  }
  found.are_all = found.group_ranks.size() == membership.ranks.size();
  return found;
}

bool ShmMechanism::share_cores(const Membership& membership, const Neighbours& here) const {
  std::vector<CpuSet> cores;
  for (const int member : here.group_ranks)
    cores.push_back(cores_of_rank_.at(membership.ranks[static_cast<std::size_t>(member)]));
  return !enough_cores(cores);
}

Bytes ShmMechanism::offer(const Membership& membership, const GroupOptions&) {
  ShmOffer mine;
  mine.host = host_;
  const Neighbours here = neighbours_in(membership);
  const int members = static_cast<int>(here.group_ranks.size());
  if (members > 1) mine.listener = source_->open_listener(membership.uid);
  if (members > 1 && here.me == 0) {
    try {
      mine.ticket = source_->make(membership.uid, here.areas().plan, members);
    } catch (const Error& error) {
      mine.problem = error.what();
    }
  }
  return mine.packed();
}

Bytes ShmMechanism::answer(const Membership& membership, std::span<const Word> offers,
                           Duration patience) {
  const Neighbours here = neighbours_in(membership);
  std::string problem;
  if (here.group_ranks.size() > 1) {
    const ShmOffer maker =
        ShmOffer::read(offers[static_cast<std::size_t>(here.group_ranks.front())]);
    problem = maker.problem;
    try {
      if (problem.empty()) join(membership, here, offers, maker.ticket, patience);
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  Packer packer;
  packer.text(problem);
  return packer.packed();
}

void ShmMechanism::join(const Membership& membership, const Neighbours& here,
                        std::span<const Word> offers, const Bytes& ticket, Duration patience) {
  if (here.me == 0) {
    std::vector<Bytes> listeners;
    for (const int rank : here.group_ranks)
      listeners.push_back(ShmOffer::read(offers[static_cast<std::size_t>(rank)]).listener);
    source_->pass_descriptors(membership.uid, listeners);
  }
  const int members = static_cast<int>(here.group_ranks.size());
  auto region =
      source_->join(membership.uid, ticket, here.areas().plan, members, here.me, patience);
  std::lock_guard lock(mutex_);
  joined_[membership.uid] = std::move(region);
}

// Nothing is left but of a group that never came to be: an open one keeps its region itself.
void ShmMechanism::close(const Membership& membership, bool) {
  {
    std::lock_guard lock(mutex_);
    joined_.erase(membership.uid);
  }
  source_->settled(membership.uid);
}

void ShmMechanism::open(NewGroup& group, std::span<const Word> offers,
                        std::span<const Word> answers) {
  const std::uint64_t uid = group.membership.uid;
  std::unique_ptr<SharedRegion> region;
  {
    std::lock_guard lock(mutex_);
    if (const auto found = joined_.find(uid); found != joined_.end()) {
      region = std::move(found->second);
      joined_.erase(found);
    }
  }
  source_->settled(uid);
  for (std::size_t member = 0; member < answers.size(); ++member) {
    const std::string problem = Unpacker(answers[member]).text();
    if (problem.empty()) continue;
    const std::string reason = fmt::format("rank {}: {}", group.membership.ranks[member], problem);
    // What the first group lacks, all others are likely to lack.
    if (static_cast<int>(member) == group.shape.rank && is_first_time(without_numbers(problem)))
      logger_.warning(fmt::format("group {} does without shared memory: {}", uid, problem));
    add_absent(group.algorithms, reason);
    return;
  }
  const auto memory = std::make_shared<HostMemory>();
  for (const Word said : offers) memory->host_of.push_back(ShmOffer::read(said).host);
  group.give(memory);
  if (!region) return;
  const Neighbours here = neighbours_in(group.membership);
  memory->areas = here.areas();
  memory->channel = std::make_shared<ShmChannel>(
      std::move(region), here.group_ranks, share_cores(group.membership, here),
      memory->areas.control_block, [logger = logger_, uid](const std::string& shortage) {
        logger.warning(fmt::format("group {}: {}", uid, shortage));
      });
  source_->opened(memory->channel);
  const auto mail = std::make_shared<ShmMail>(memory->channel, memory->areas.mail);
  group.transports.add(here.are_all ? make_shm_port(mail) : port_of(mail, group.shape.size),
                       here.group_ranks);
  if (here.are_all)
    add_shm_algorithms(group.algorithms, {memory->channel, mail, memory->areas, group.shape});
}

}  // namespace hymn
