#include "runtime/mechanisms/mpi_mechanism.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>

#include "base/endless_call.hpp"
#include "collectives/mpi/mpi_collective.hpp"
#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "p2p/exchange_port.hpp"
#include "p2p/mpi/mpi_port.hpp"
#include "runtime/mechanisms/mpi_session.hpp"

namespace hymn {
namespace {

// Of the group's exchange, beside those of world_meeting.cpp and nccl_mechanism.cpp.
constexpr std::uint64_t tag_cleared = group_tags::of_making | 5;

}  // namespace

std::string MpiMechanism::description() const {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  PMPI_Get_library_version(text.data(), &length);
  const std::string_view library = text.data();
  std::string level(to_string(gate_->level()));
  std::transform(level.begin(), level.end(), level.begin(),
                 [](unsigned char letter) { return static_cast<char>(std::toupper(letter)); });
  return fmt::format("{}, MPI_THREAD_{}", library.substr(0, library.find_first_of(",\n")), level);
}

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
// have, one group may use. Of two groups that are being made at the same time, with one tag, the
// one that some member comes to later does without: MPI would take what is said for one for what is
// said for the other.
Bytes MpiMechanism::offer(const Membership& membership, const GroupOptions&) {
  Packer packer;
  {
    std::lock_guard lock(mutex_);
    const int tag = tag_of(membership.uid);
    const bool tag_is_taken = std::any_of(making_.begin(), making_.end(),
                                          [tag](std::uint64_t uid) { return tag_of(uid) == tag; });
    making_.insert(membership.uid);
    packer.number(stuck_ || tag_is_taken ? 1 : 0);
  }
  parked_.offer(packer, membership.uid, membership.ranks);
  return packer.packed();
}

MpiMechanism::Plan MpiMechanism::plan_of(std::span<const Word> offers) {
  std::vector<std::vector<std::uint64_t>> parked;
  bool can_make = true;
  for (const Word said : offers) {
    Unpacker unpacker(said);
    can_make = unpacker.number() == 0 && can_make;
    auto& words = parked.emplace_back();
    while (!unpacker.empty()) words.push_back(unpacker.number());
  }
  const auto chosen = ParkedCommunicators::choose(parked);
  return {.chosen = chosen, .makes = !chosen && can_make, .parked = std::move(parked)};
}

// Where messages are left in what was chosen: how many this rank has sent to each member.
Bytes MpiMechanism::answer(const Membership& membership, std::span<const Word> offers, Duration) {
  Packer packer;
  const Plan plan = plan_of(offers);
  if (plan.chosen && plan.chosen->left != 0)
    parked_.tell_sent(packer, membership.uid, *plan.chosen);
  return packer.packed();
}

MPI_Comm MpiMechanism::take(const NewGroup& group, const ParkedCommunicators::Choice& chosen,
                            std::span<const Word> answers) {
  const Parked taken = parked_.take(group.membership.uid, group.membership.ranks, chosen);
  if (chosen.left == 0) return taken.channel->communicator;
  std::uint64_t sent = 0;
  for (const Word said : answers) {
    Unpacker unpacker(said);
    for (int member = 0; member < group.shape.rank; ++member) unpacker.number();
    sent += unpacker.number();
  }
  const Patience& patience = group.patience;
  PatientWait wait(patience, group.membership.ranks);
  const std::uint64_t dropped = ParkedCommunicators::clear(*taken.channel, sent, [&] {
    if (!wait.turn()) throw_left(patience, wait);
  });
  // What anybody sends in the new group must not be taken away with the rest.
  all_gather(*group.exchange, group.membership.ranks, tag_cleared, {}, patience);
  dropped_.fetch_add(dropped);
  if (dropped != 0)
    group.logger.debug(
        fmt::format("{} message(s) dropped: group {} takes the communicator of one "
                    "that ended without receiving them",
                    dropped, group.membership.uid));
  return taken.channel->communicator;
}

// MPI cannot be told to give up, and waits for members that have died in the midst of it. Where
// threads may call MPI at the same time, one that nobody needs waits with it. Until it returns MPI
// may keep waiting, too, who wants another communicator. Where this thread alone may call MPI, it
// is lost with them, and the process ends.
MPI_Comm MpiMechanism::make_communicator(const NewGroup& group) {
  const Membership& membership = group.membership;
  // Only members call, and the handshake before has brought all of them here.
  const auto create = [exchange = exchange_, gate = gate_, ranks = membership.ranks,
                       tag = tag_of(membership.uid)] {
    const MpiGate::Entry entry(*gate);
    MPI_Group all = MPI_GROUP_NULL;
    MPI_Group members = MPI_GROUP_NULL;
    check_mpi(PMPI_Comm_group(exchange->communicator(), &all), "MPI_Comm_group");
    check_mpi(PMPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &members),
              "MPI_Group_incl");
    MPI_Comm made = MPI_COMM_NULL;
    check_mpi(PMPI_Comm_create_group(exchange->communicator(), members, tag, &made),
              "MPI_Comm_create_group");
    check_mpi(PMPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    PMPI_Group_free(&members);
    PMPI_Group_free(&all);
    return made;
  };
  if (gate_->level() != ThreadLevel::multiple) {
    MPI_Comm made = MPI_COMM_NULL;
    finish_or_give_up([&] { made = create(); }, membership.ranks, group.patience,
                      group.end_process);
    return made;
  }
  struct Outcome {
    std::atomic<bool> returned{false};
    MPI_Comm made = MPI_COMM_NULL;
  };
  const auto outcome = std::make_shared<Outcome>();
  const auto call = [create, outcome] {
    outcome->made = create();
    outcome->returned = true;
  };
  try {
    finish_or_leave(call, membership.ranks, group.patience);
  } catch (const BackendError&) {
    throw;  // by MPI itself
  } catch (...) {
    if (!outcome->returned) {
      {
        const std::lock_guard lock(mutex_);
        stuck_ = true;
      }
      never_finalize();  // MPI would wait for the call
    }
    throw;
  }
  return outcome->made;
}

// The lock is not held over what waits for others.
void MpiMechanism::open(NewGroup& group, std::span<const Word> offers,
                        std::span<const Word> answers) {
  const std::uint64_t uid = group.membership.uid;
  const Plan plan = plan_of(offers);
  parked_.forget_vain(uid, plan.parked);
  if (plan.chosen || plan.makes) {
    Parked own{.id = plan.chosen ? plan.chosen->id : uid};
    const auto channel = channel_of(
        group, plan.chosen ? take(group, *plan.chosen, answers) : make_communicator(group));
    own.channel = channel;
    {
      std::lock_guard lock(mutex_);
      in_use_[uid] = own;
    }
    add_mpi_algorithms(group.algorithms, channel, group.shape);
    const auto port = make_mpi_port(channel);
    group.transports.add(port);
    add_pairwise_algorithms(group.algorithms, pairwise_models::over_mpi, port, group.shape);
  } else if (const std::lock_guard lock(mutex_); stuck_) {
    group.logger.warning(
        fmt::format("group {} does without MPI: an earlier call of MPI_Comm_create_group has not "
                    "returned",
                    uid));
  }
  parked_.give_back(uid, group.membership.ranks);
  std::lock_guard lock(mutex_);
  making_.erase(uid);
}

std::shared_ptr<MpiChannel> MpiMechanism::channel_of(const NewGroup& group,
                                                     MPI_Comm communicator) const {
  auto channel = std::make_shared<MpiChannel>(group.membership.ranks.size());
  channel->communicator = communicator;
  channel->gate = gate_;
  channel->chunk_limit = chunk_limit_;
  channel->tag_bound = tag_bound_;
  return channel;
}

void MpiMechanism::close(const Membership& membership, bool clean) {
  parked_.give_back(membership.uid, membership.ranks);  // it may not have come to open()
  std::lock_guard lock(mutex_);
  making_.erase(membership.uid);
  const auto found = in_use_.find(membership.uid);
  if (found == in_use_.end()) return;
  // One with something still in flight is never used again, nor freed.
  if (clean) parked_.park(membership.ranks, std::move(found->second));
  in_use_.erase(found);
}

std::uint64_t MpiMechanism::left_over() {
  return parked_.left_over(exchange_->rank()) + exchange_->left_over();
}

// Where messages are left MPI might give the number of a communicator that was freed, and with it
// the messages, to another.
void MpiMechanism::shut_down(WorldEnd end) {
  if (end != WorldEnd::clean || !gate_->may_enter()) return;
  {
    const MpiGate::Entry entry(*gate_);
    for (MPI_Comm communicator : parked_.release()) PMPI_Comm_free(&communicator);
  }
  exchange_->shut_down();
}

}  // namespace hymn
