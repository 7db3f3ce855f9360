#include "runtime/mechanisms/tcp_mechanism.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/helper_thread.hpp"
#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "collectives/planner/tuning_table.hpp"
#include "control/interface.hpp"
#include "p2p/tcp/tcp_card.hpp"
#include "p2p/tcp/tcp_port.hpp"

namespace hymn {
namespace {

constexpr Duration last_moment = std::chrono::milliseconds(500);

void add_absent_pairs(Algorithms& algorithms, const std::string& reason) {
  const AlgorithmModel& model = pairwise_models::over_tcp;
  algorithms.push_back(std::make_unique<AbsentAlgorithm>(model, model.serves, reason));
}

}  // namespace

/// What a member tells the others.
struct TcpMechanism::Offer {
  std::string token{};  ///< of rank 0, in groups of all ranks
  tcp::Card card{};
  std::string problem{};  ///< why it listens nowhere

  Bytes packed() const {
    Packer packer;
    packer.text(token);
    card.pack(packer);
    return packer.text(problem).packed();
  }
  static Offer read(Word said) {
    Unpacker unpacker(said);
    return {
        .token = unpacker.text(), .card = tcp::Card::unpack(unpacker), .problem = unpacker.text()};
  }
};

TcpMechanism::TcpMechanism(Site site, Logger logger) : site_(std::move(site)), logger_(logger) {
  if (site_.rank == 0) token_ = Token::random();
}

void TcpMechanism::placed(const JobMap& job) {
  one_host_ = job.world.hosts.size() == 1;
  for (const RankPlace& place : job.places) here_.push_back(place.rank);
}

// All members say the same. Who names the path that is made of it has not forbidden it.
bool TcpMechanism::is_wanted(const Membership& membership, const GroupOptions& options) const {
  const PathPolicy path = policy_of(options, site_.path);
  if (path.names(paths::tcp)) return true;
  if (!path.allows(paths::tcp) && !path.names(paths::hierarchical)) return false;
  if (site_.beside_mpi && !has_measured(membership.ranks.size())) return false;
  return !std::ranges::all_of(
      membership.ranks, [this](int rank) { return std::ranges::find(here_, rank) != here_.end(); });
}

bool TcpMechanism::has_measured(std::size_t ranks) const {
  return tuning_ != nullptr && tuning_->knows(paths::tcp, static_cast<int>(ranks), false);
}

std::shared_ptr<tcp::Net> TcpMechanism::net() const {
  const std::lock_guard lock(mutex_);
  return net_;
}

void TcpMechanism::start() {
  const std::lock_guard lock(mutex_);
  if (net_) return;
  const tcp::Limits limits{.streams = static_cast<std::uint64_t>(site_.streams)};
  auto net = make_shared_here<tcp::Net>(site_.rank, site_.size, logger_, limits);
  const auto found =
      choose_interface(interface_addresses(), site_.interface, one_host_, "HYMN_INTERFACE");
  net->listen(found.address.to_string());
  net_ = std::move(net);
}

Bytes TcpMechanism::offer(const Membership& membership, const GroupOptions& options) {
  Offer mine;
  if (site_.rank == 0 && membership.ranks.size() == static_cast<std::size_t>(site_.size))
    mine.token = token_.text();
  if (!is_wanted(membership, options)) return mine.packed();
  try {
    start();
    mine.card = tcp::Card::of(*net_);
  } catch (const Error& error) {
    mine.problem = error.what();
  }
  return mine.packed();
}

void TcpMechanism::learn(const Membership& membership, const std::vector<Offer>& offers) {
  net_->set_token(token_);
  for (std::size_t member = 0; member < offers.size(); ++member)
    offers[member].card.introduce(*net_, membership.ranks[member]);
}

void TcpMechanism::open(NewGroup& group, std::span<const Word> offers, std::span<const Word>) {
  const Membership& membership = group.membership;
  std::vector<Offer> said;
  for (const Word bytes : offers) said.push_back(Offer::read(bytes));
  for (const Offer& offer : said)
    if (!offer.token.empty()) token_ = Token::parse(offer.token);
  if (!is_wanted(membership, group.options)) return;
  for (std::size_t member = 0; member < said.size(); ++member) {
    if (said[member].problem.empty()) continue;
    const std::string reason =
        fmt::format("rank {}: {}", membership.ranks[member], said[member].problem);
    if (static_cast<int>(member) == group.shape.rank && is_first_time(said[member].problem))
      logger_.warning(fmt::format("group {} does without connections of its own: {}",
                                  membership.uid, said[member].problem));
    return add_absent_pairs(group.algorithms, reason);
  }
  learn(membership, said);
  net_->open(membership.uid);
  const auto port = make_tcp_port(net_, membership.uid, membership.ranks);
  // What was measured is this path's algorithms: those of the hierarchy are MPI's then.
  if (!site_.beside_mpi || policy_of(group.options, site_.path).names(paths::tcp))
    group.transports.add(port);
  add_pairwise_algorithms(group.algorithms, pairwise_models::over_tcp, port, group.shape);
}

void TcpMechanism::stand_by(const Membership& membership, const GroupOptions&, const Patience&) {
  close(membership, true);
}

void TcpMechanism::close(const Membership& membership, bool) {
  if (const auto net = this->net()) net->close(membership.uid);
}

std::uint64_t TcpMechanism::dropped_messages() const {
  const auto net = this->net();
  return net ? net->dropped() : 0;
}

std::string TcpMechanism::trouble_with(int rank) const {
  const auto net = this->net();
  return net ? net->trouble_with(rank) : std::string();
}

// A rank that waits for something else, or computes, may have what others wait for: a message that
// is on its way, or that a cut connection has taken back.
bool TcpMechanism::move(const std::function<bool(int rank)>& is_dead) {
  const auto net = this->net();
  if (!net) return false;
  // What fails is told by whoever waits for it.
  run_guarded([&] { net->turn(); }, [](std::string_view) {});
  for (const int rank : net->away())
    if (is_dead(rank)) net->note_dead(rank);
  return net->is_troubled();
}

void TcpMechanism::shut_down(WorldEnd) {
  if (const auto net = this->net()) net->shut_down(last_moment);
}

}  // namespace hymn
