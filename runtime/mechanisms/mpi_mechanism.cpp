#include "runtime/mechanisms/mpi_mechanism.hpp"

#include <algorithm>

#include "base/endless_call.hpp"
#include "collectives/mpi/mpi_collective.hpp"
#include "collectives/mpi/mpi_port.hpp"
#include "collectives/pairwise/pairwise.hpp"
#include "runtime/mechanisms/mpi_session.hpp"

namespace hymn {

MpiMechanism::MpiMechanism(std::shared_ptr<MpiExchange> exchange, std::shared_ptr<MpiGate> gate,
                           std::size_t chunk_limit)
    : exchange_(std::move(exchange)), gate_(std::move(gate)), chunk_limit_(chunk_limit) {
  const MpiGate::Entry entry(*gate_);
  int* bound = nullptr;
  int found = 0;
  check_mpi(PMPI_Comm_get_attr(exchange_->communicator(), MPI_TAG_UB, &bound, &found),
            "MPI_Comm_get_attr");
  if (found != 0) tag_bound_ = *bound;
}

// Whether it can make one, and the parked communicators of these ranks. What all members still
// have, one group may use.
Bytes MpiMechanism::offer(const Membership& membership, const GroupOptions&) {
  std::lock_guard lock(mutex_);
  Packer packer;
  packer.number(stuck_ ? 1 : 0);
  const auto found = parked_.find(membership.ranks);
  if (found != parked_.end())
    for (const Parked& parked : found->second) packer.number(parked.id);
  return packer.packed();
}

std::optional<MpiMechanism::Parked> MpiMechanism::take_or_make(const NewGroup& group,
                                                               std::span<const Bytes> offers) {
  std::vector<std::uint64_t> common;
  bool stuck = false;
  for (std::size_t member = 0; member < offers.size(); ++member) {
    std::vector<std::uint64_t> ids;
    Unpacker unpacker(offers[member]);
    stuck = unpacker.number() != 0 || stuck;
    while (!unpacker.empty()) ids.push_back(unpacker.number());
    if (member == 0) common = ids;
    std::erase_if(common, [&ids](std::uint64_t id) {
      return std::find(ids.begin(), ids.end(), id) == ids.end();
    });
  }
  const Membership& membership = group.membership;
  if (common.empty() && stuck) return std::nullopt;
  if (common.empty()) return Parked{membership.uid, make_communicator(group)};
  const std::uint64_t chosen = *std::min_element(common.begin(), common.end());
  auto& parked = parked_[membership.ranks];
  const auto found = std::find_if(parked.begin(), parked.end(),
                                  [chosen](const Parked& p) { return p.id == chosen; });
  const Parked taken = *found;
  parked.erase(found);
  return taken;
}

// MPI cannot be told to give up, and waits for members that have died in the midst of it. Where
// threads may call MPI at the same time, one that nobody needs waits with it. Until it returns MPI
// may keep waiting, too, who wants another communicator.
MPI_Comm MpiMechanism::make_communicator(const NewGroup& group) {
  const Membership& membership = group.membership;
  const MpiGate::Entry entry(*gate_);
  MPI_Group all = MPI_GROUP_NULL;
  MPI_Group members = MPI_GROUP_NULL;
  check_mpi(PMPI_Comm_group(exchange_->communicator(), &all), "MPI_Comm_group");
  check_mpi(PMPI_Group_incl(all, static_cast<int>(membership.ranks.size()), membership.ranks.data(),
                            &members),
            "MPI_Group_incl");
  // Only members call, and the handshake before has brought all of them here.
  const int tag = 1 + static_cast<int>(membership.uid % 32766);
  const auto made = std::make_shared<MPI_Comm>(MPI_COMM_NULL);
  const auto create = [exchange = exchange_, members, tag, made] {
    check_mpi(PMPI_Comm_create_group(exchange->communicator(), members, tag, made.get()),
              "MPI_Comm_create_group");
  };
  if (gate_->level() == ThreadLevel::multiple) {
    try {
      finish_or_leave(create, membership.ranks, group.patience);
    } catch (const TimeoutError&) {
      stuck_ = true;
      never_finalize();  // MPI would wait for the call
      throw;
    }
  } else {
    create();
  }
  check_mpi(PMPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  PMPI_Group_free(&members);
  PMPI_Group_free(&all);
  return *made;
}

void MpiMechanism::open(NewGroup& group, std::span<const Bytes> offers, std::span<const Bytes>) {
  auto channel = std::make_shared<MpiChannel>();
  {
    std::lock_guard lock(mutex_);
    const std::optional<Parked> taken = take_or_make(group, offers);
    if (!taken) return;
    in_use_[group.membership.uid] = *taken;
    channel->communicator = taken->communicator;
  }
  channel->gate = gate_;
  channel->chunk_limit = chunk_limit_;
  channel->tag_bound = tag_bound_;
  add_mpi_algorithms(group.algorithms, channel, group.shape);
  group.port = make_mpi_port(channel);
  add_pairwise_algorithms(group.algorithms, group.port, group.shape);
}

void MpiMechanism::close(const Membership& membership, bool clean) {
  std::lock_guard lock(mutex_);
  const auto found = in_use_.find(membership.uid);
  if (found == in_use_.end()) return;
  // One with something still in flight is never used again, nor freed.
  if (clean) parked_[membership.ranks].push_back(found->second);
  in_use_.erase(found);
}

void MpiMechanism::shut_down(WorldEnd end) {
  std::lock_guard lock(mutex_);
  if (end != WorldEnd::clean || !gate_->may_enter()) return;
  std::vector<Parked> all;
  for (const auto& [ranks, parked] : parked_) all.insert(all.end(), parked.begin(), parked.end());
  parked_.clear();
  // The same order on all ranks.
  std::sort(all.begin(), all.end(), [](const Parked& a, const Parked& b) { return a.id < b.id; });
  {
    const MpiGate::Entry entry(*gate_);
    for (Parked& parked : all) PMPI_Comm_free(&parked.communicator);
  }
  exchange_->shut_down();
}

}  // namespace hymn
