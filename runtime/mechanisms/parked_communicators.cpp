#include "runtime/mechanisms/parked_communicators.hpp"

#include <algorithm>
#include <utility>

#include "base/keep_for_ever.hpp"
#include "p2p/mpi/mpi_types.hpp"

namespace hymn {
namespace {

/// As in an offer, behind one another.
struct OfferedCommunicator {
  std::uint64_t id = 0;
  std::uint64_t sent = 0;
  std::uint64_t received = 0;
  std::uint64_t collectives = 0;
};
constexpr std::size_t words_of_one = 4;

OfferedCommunicator offered_at(const std::vector<std::uint64_t>& words, std::size_t index) {
  const std::uint64_t* const at = words.data() + index * words_of_one;
  return {at[0], at[1], at[2], at[3]};
}

std::optional<OfferedCommunicator> offered_with(const std::vector<std::uint64_t>& words,
                                                std::uint64_t id) {
  for (std::size_t i = 0; i < words.size() / words_of_one; ++i)
    if (const OfferedCommunicator offered = offered_at(words, i); offered.id == id) return offered;
  return std::nullopt;
}

// A member may still use it in a group that the others have ended: so often it is waited for.
constexpr int most_vain = 16;

/// Nothing where not all have it, or have called the same collectives over it.
std::optional<ParkedCommunicators::Choice> judge(std::span<const std::vector<std::uint64_t>> offers,
                                                 const OfferedCommunicator& first) {
  ParkedCommunicators::Choice choice{.id = first.id};
  for (const auto& words : offers) {
    const auto offered = offered_with(words, first.id);
    if (!offered || offered->collectives != first.collectives) return std::nullopt;
    choice.left += offered->sent - offered->received;
  }
  return choice;
}

/// A message that is received only so that it is gone.
class Unwanted {
 public:
  Unwanted() = default;
  Unwanted(const Unwanted&) = delete;
  Unwanted& operator=(const Unwanted&) = delete;
  // MPI may still write to what has not come whole.
  ~Unwanted() {
    if (request_ != MPI_REQUEST_NULL) keep_for_ever(std::move(bytes_));
  }

  bool find(const MpiChannel& channel) {
    const MpiGate::Entry entry(*channel.gate);
    int found = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check_mpi(
        PMPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, channel.communicator, &found, &message, &status),
        "MPI_Improbe");
    if (found == 0) return false;
    MPI_Count count = 0;
    check_mpi(PMPI_Get_elements_x(&status, MPI_BYTE, &count), "MPI_Get_elements_x");
    bytes_.resize(static_cast<std::size_t>(count));
    const LargeType large(MPI_BYTE, bytes_.size(), channel.chunk_limit);
    check_mpi(PMPI_Imrecv(bytes_.data(), large.count(), large.type(), &message, &request_),
              "MPI_Imrecv");
    return true;
  }
  bool is_taken(const MpiChannel& channel) {
    const MpiGate::Entry entry(*channel.gate);
    int done = 0;
    check_mpi(PMPI_Test(&request_, &done, MPI_STATUS_IGNORE), "MPI_Test");
    return done != 0;
  }

 private:
  Bytes bytes_;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

}  // namespace

void ParkedCommunicators::offer(Packer& packer, std::uint64_t uid, const std::vector<int>& ranks) {
  std::lock_guard lock(mutex_);
  const auto found = parked_.find(ranks);
  if (found == parked_.end()) return;
  for (const Parked& parked : found->second) {
    const MpiTraffic& traffic = parked.channel->traffic;
    packer.number(parked.id).number(traffic.sent()).number(traffic.received());
    packer.number(traffic.collectives());
  }
  set_aside_[uid] = std::move(found->second);
  parked_.erase(found);
}

// Rather one that is empty: the oldest of those, and else the oldest.
std::optional<ParkedCommunicators::Choice> ParkedCommunicators::choose(
    std::span<const std::vector<std::uint64_t>> offers) {
  std::optional<Choice> best;
  const std::vector<std::uint64_t>& first = offers.front();
  for (std::size_t i = 0; i < first.size() / words_of_one; ++i) {
    const auto choice = judge(offers, offered_at(first, i));
    if (!choice) continue;
    const auto rank = [](const Choice& c) { return std::pair(c.left != 0, c.id); };
    if (!best || rank(*choice) < rank(*best)) best = choice;
  }
  return best;
}

void ParkedCommunicators::forget_vain(std::uint64_t uid,
                                      std::span<const std::vector<std::uint64_t>> offers) {
  std::lock_guard lock(mutex_);
  const auto aside = set_aside_.find(uid);
  if (aside == set_aside_.end()) return;
  std::erase_if(aside->second, [&](Parked& parked) {
    if (judge(offers, {.id = parked.id, .collectives = parked.channel->traffic.collectives()}))
      return false;
    const bool all_have_it = std::ranges::all_of(
        offers, [&](const auto& words) { return offered_with(words, parked.id).has_value(); });
    if (!all_have_it && ++parked.vain < most_vain) return false;
    forgotten_ += MpiTraffic::mixed(parked.id);
    return true;
  });
}

void ParkedCommunicators::tell_sent(Packer& packer, std::uint64_t uid, const Choice& choice) {
  std::lock_guard lock(mutex_);
  for (const Parked& parked : set_aside_[uid]) {
    if (parked.id != choice.id) continue;
    const MpiTraffic& traffic = parked.channel->traffic;
    for (std::size_t i = 0; i < traffic.members(); ++i) packer.number(traffic.sent_to(i));
  }
}

ParkedCommunicators::Parked ParkedCommunicators::take(std::uint64_t uid,
                                                      const std::vector<int>& ranks,
                                                      const Choice& choice) {
  Parked taken;
  {
    std::lock_guard lock(mutex_);
    auto& aside = set_aside_.at(uid);
    const auto found = std::find_if(aside.begin(), aside.end(), [&choice](const Parked& parked) {
      return parked.id == choice.id;
    });
    taken = std::move(*found);
    aside.erase(found);
  }
  give_back(uid, ranks);
  return taken;
}

void ParkedCommunicators::give_back(std::uint64_t uid, const std::vector<int>& ranks) {
  std::lock_guard lock(mutex_);
  auto aside = set_aside_.extract(uid);
  if (!aside || aside.mapped().empty()) return;
  auto& parked = parked_[ranks];
  for (Parked& one : aside.mapped()) parked.push_back(std::move(one));
}

void ParkedCommunicators::park(const std::vector<int>& ranks, Parked parked) {
  if (parked.channel->traffic.is_spoilt()) return;
  std::lock_guard lock(mutex_);
  parked_[ranks].push_back(std::move(parked));
}

// All of them have been sent whole, as far as their senders are concerned: so all of them come.
std::uint64_t ParkedCommunicators::clear(const MpiChannel& channel, std::uint64_t sent,
                                         const std::function<void()>& step) {
  const std::uint64_t left = sent - channel.traffic.received();
  for (std::uint64_t taken = 0; taken < left;) {
    Unwanted message;
    if (!message.find(channel)) {
      step();
      continue;
    }
    while (!message.is_taken(channel)) step();
    ++taken;
  }
  return left;
}

// The first member of each adds what the others take away, so that the sum is nothing where all
// have parked it, and have called the same over it. Of what is forgotten nobody knows that.
std::uint64_t ParkedCommunicators::left_over(int rank) {
  std::lock_guard lock(mutex_);
  std::uint64_t sum = forgotten_;
  for (const auto& [ranks, all] : parked_) {
    for (const Parked& parked : all) {
      const MpiTraffic& traffic = parked.channel->traffic;
      const std::uint64_t word =
          MpiTraffic::mixed(MpiTraffic::mixed(parked.id) ^ traffic.collectives());
      sum += ranks.front() == rank ? word * (ranks.size() - 1) : -word;
      sum += MpiTraffic::mixed(1) * (traffic.sent() - traffic.received());
    }
  }
  return sum;
}

std::size_t ParkedCommunicators::count() {
  std::lock_guard lock(mutex_);
  std::size_t all = 0;
  for (const auto& [ranks, parked] : parked_) all += parked.size();
  return all;
}

std::vector<MPI_Comm> ParkedCommunicators::release() {
  std::lock_guard lock(mutex_);
  std::map<std::uint64_t, MPI_Comm> by_id;
  for (const auto& [ranks, all] : parked_)
    for (const Parked& parked : all) by_id[parked.id] = parked.channel->communicator;
  parked_.clear();
  std::vector<MPI_Comm> ordered;
  for (const auto& [id, communicator] : by_id) ordered.push_back(communicator);
  return ordered;
}

}  // namespace hymn
