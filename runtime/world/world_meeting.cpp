// How the ranks of a world, and the members of a group, find out about each other when it is made.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <random>

#include "collectives/planner/peer_use.hpp"
#include "collectives/planner/tuning_table.hpp"
#include "hymn/settings.hpp"
#include "p2p/exchange_port.hpp"
#include "runtime/world/group_spots.hpp"
#include "runtime/world/tuning_library.hpp"
#include "runtime/world/world_state.hpp"
#include "topology/affinity.hpp"

namespace hymn::detail {
namespace {

// Of the world's exchange.
constexpr std::uint64_t tag_meet = 1;
// On the exchange of the group.
constexpr std::uint64_t tag_group = group_tags::of_making | 1;

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

// Ranks that would choose differently must not start.
void WorldState::check_settings(int rank, Unpacker& unpacker) const {
  auto agree = [&](std::string_view what, const std::string& here, const std::string& there) {
    if (here != there)
      throw ConfigError(fmt::format("{} is '{}' here but '{}' on rank {}", what, here, there, rank),
                        {.rank = rank_, .remedy = "start all ranks with the same settings"});
  };
  agree("the version of hymn", version(), unpacker.text());
  agree("HYMN_PATH", path_.text(), unpacker.text());
  agree("HYMN_ALGO", algo_.text(), unpacker.text());
  agree("HYMN_REPRODUCIBLE", std::string(to_string(reproducibility_)), unpacker.text());
  agree("HYMN_CONTROL", config_.control ? "1" : "0", unpacker.text());
  agree("HYMN_CHECKS", std::string(to_string(checks_)), unpacker.text());
  agree("HYMN_P2P_COMPAT", std::string(to_string(config_.p2p_compat)), unpacker.text());
  agree("HYMN_CHUNK_LIMIT", std::to_string(config_.chunk_limit), std::to_string(unpacker.number()));
}

// Each rank tells the others where it is, and with what settings; then all learn what their hosts
// are like.
void WorldState::meet() {
  const std::vector<int> all = all_ranks();
  const Patience patience = making_patience("making the world", init_limit(), all);
  const MachineReader read = [this] {
    const bool pretends = site_ && site_->machine != nullptr;
    return pretends ? KnownMachine::of(site_->machine) : known_machine(config_.topology_file);
  };
  const TuningFile tuning = rank_ == 0 ? find_tuning(read) : TuningFile();
  Packer packer;
  packer.text(version()).text(path_.text()).text(algo_.text());
  packer.text(to_string(reproducibility_)).text(config_.control ? "1" : "0");
  packer.text(to_string(checks_)).text(to_string(config_.p2p_compat));
  packer.number(config_.chunk_limit);
  packer.text(tuning.path).text(tuning.text).text(tuning.library);
  const bool leads = rank_ == 0;
  packer.number(leads ? random_number() : 0);
  packer.text(leads && control_ ? control_->draw_secret() : "");
  Arrival::of_this_rank(config_, site_, rank_).pack(packer);
  const auto words = all_gather(*exchange_, all, tag_meet, packer.packed(), patience);
  std::vector<Arrival> arrivals;
  TuningFile found;
  std::string secret;
  for (int rank = 0; rank < size_; ++rank) {
    Unpacker unpacker(words[static_cast<std::size_t>(rank)]);
    check_settings(rank, unpacker);
    TuningFile theirs{unpacker.text(), unpacker.text(), unpacker.text()};
    const std::uint64_t job = unpacker.number();
    std::string drawn = unpacker.text();
    if (rank == 0) {
      found = std::move(theirs);
      recorder_.set_job(job);
      secret = std::move(drawn);
    }
    arrivals.push_back(Arrival::unpack(unpacker));
  }
  get_to_know(arrivals);
  job_ = map_job(*exchange_, arrivals, read, patience);
  oversubscribed_ = job_.world.hosts[static_cast<std::size_t>(job_.host)].oversubscribed;
  granted_ = arrivals[static_cast<std::size_t>(rank_)].cpus;
  bind_caller();
  use_tuning(found);
  start_control(arrivals, secret);
}

// The file is rank 0's affair: others may see another file system. It need not be there.
WorldState::TuningFile WorldState::find_tuning(const MachineReader& read) const {
  if (config_.tuning == "off") return {};
  TuningFile file{config_.tuning, "", tuning_library()};
  try {
    if (file.path.empty()) file.path = tuning_file_for(read()->fingerprint);
  } catch (const std::exception&) {
    return {};  // a machine that cannot be read is told of when all have met
  }
  if (file.path.empty()) return {};
  try {
    if (auto text = read_tuning_text(file.path))
      file.text = std::move(*text);
    else if (!config_.tuning.empty())
      warn_of_tuning(fmt::format("HYMN_TUNING names {}, which does not exist", file.path));
  } catch (const Error& error) {
    warn_of_tuning(error.problem());
  }
  return file;
}

void WorldState::use_tuning(const TuningFile& file) {
  if (file.text.empty()) return;
  std::vector<std::string> fingerprints;
  for (const auto& machine : job_.machines) fingerprints.push_back(fingerprint(*machine));
  TuningChoice choice = choose_tuning(file.text, file.path, fingerprints, file.library);
  tuning_ = std::move(choice.table);
  if (rank_ == 0 && !choice.problem.empty()) warn_of_tuning(choice.problem);
}

void WorldState::warn_of_tuning(const std::string& problem) const {
  if (is_first_time(problem)) logger_.warning(fmt::format("{}; it is ignored", problem));
}

// HYMN_BIND, for the calling thread; no other thread of the application is ever touched.
void WorldState::bind_caller() {
  if (config_.bind == BindTo::none || site_) return;
  const CpuSet& cpus = job_.place().cpus;
  if (cpus == granted_)
    logger_.info(fmt::format("HYMN_BIND={}: the thread is bound to CPUs {} already, and stays so",
                             to_string(config_.bind), cpus.to_string()));
  else if (bind_this_thread(cpus))
    logger_.info(fmt::format("the thread is bound to CPUs {}", cpus.to_string()));
  else
    logger_.warning(fmt::format("HYMN_BIND={}: the kernel refuses to bind the thread to CPUs {}",
                                to_string(config_.bind), cpus.to_string()));
}

CpuSet WorldState::helper_cpus() const {
  std::vector<CpuSet> others;
  for (const RankPlace& place : job_.places)
    if (place.rank != rank_) others.push_back(place.cpus);
  return cpus_for_helper(job_.machine(), granted_, job_.place().cpus, others);
}

PlanContext WorldState::plan_context(GroupLayout layout, const PathPolicy& path) const {
  return {.layout = std::move(layout),
          .machines = job_.machines,
          .tuning = tuning_,
          .peers = peer_use(path, config_.p2p_compat)};
}

// Messages through shared memory move in hymn's calls only: a rank that was left in MPI's blocking
// call would keep back what it has begun to send, and for which a peer may wait that MPI waits for.
bool WorldState::shares_memory() const {
  return job_.places.size() > 1 && (path_.allows("shm") || path_.allows("hierarchical"));
}

Timeout WorldState::making_limit(const GroupOptions& options) const {
  return options.init_timeout.or_else(init_timeout_)
      .or_else(options.timeout)
      .or_else(default_timeout_);
}

// The members of a new group compare what they were called with, and learn where each other are and
// what each mechanism of the others has to offer. Then all are known to be there.
WorldState::Agreement WorldState::agree(Exchange& exchange, const Membership& membership,
                                        const GroupOptions& options) {
  const std::string mine =
      fmt::format("ranks [{}], path '{}', algo '{}', reproducibility '{}', nccl '{}'",
                  fmt::join(membership.ranks, ", "), options.path, options.algo,
                  options.reproducibility ? to_string(*options.reproducibility) : "",
                  hymn::describe(nccl_options(options.nccl, config_.nccl, "GroupOptions.nccl")));
  const Timeout limit = options.timeout.or_else(default_timeout_);
  const Timeout making = making_limit(options);
  // At level info a call that is under way may have to be given up.
  const bool blocks = limit.is_none() && !shares_memory() && checks_ != CheckLevel::info &&
                      std::all_of(mechanisms_.begin(), mechanisms_.end(),
                                  [](const auto& m) { return m->may_block(); });
  Packer packer;
  packer.text(mine).number(blocks ? 1 : 0);
  pack_spot(packer, job_, membership.ranks);
  for (const auto& mechanism : mechanisms_) packer.bytes(mechanism->offer(membership, options));
  const auto said =
      all_gather(exchange, membership.ranks, tag_group, packer.packed(),
                 making_patience(fmt::format("making group {} of ranks [{}]", membership.uid,
                                             fmt::join(membership.ranks, ", ")),
                                 making, membership.ranks));
  Agreement agreement;
  agreement.offers.resize(mechanisms_.size());
  LayoutReader layout;
  for (std::size_t member = 0; member < said.size(); ++member) {
    Unpacker unpacker(said[member]);
    const std::string theirs = unpacker.text();
    if (theirs != mine)
      throw UsageError(fmt::format("group {} was asked for with {} here but with {} on rank {}",
                                   membership.uid, mine, theirs, membership.ranks[member]),
                       {.rank = rank_,
                        .operation = "new_group",
                        .remedy = "make the same calls of new_group on all ranks"});
    const bool they_block = unpacker.number() == 1;
    agreement.blocks = agreement.blocks && they_block;
    layout.read(unpacker);
    for (auto& offers : agreement.offers) offers.push_back(unpacker.bytes());
  }
  agreement.layout = layout.layout();
  agreement.answers = answer(exchange, membership, agreement.offers, making);
  return agreement;
}

// What was offered may fail on some member: all must know before they count on it.
std::vector<std::vector<Bytes>> WorldState::answer(Exchange& exchange, const Membership& membership,
                                                   const std::vector<std::vector<Bytes>>& offers,
                                                   Timeout limit) {
  // The others wait just as long for what is said here: it must not come at the last moment.
  const Duration soon = limit.is_none() ? Duration::max() : limit.duration() / 2;
  Packer packer;
  for (std::size_t i = 0; i < mechanisms_.size(); ++i)
    packer.bytes(mechanisms_[i]->answer(membership, offers[i], soon));
  const auto said = all_gather(
      exchange, membership.ranks, tag_group, packer.packed(),
      making_patience(fmt::format("making group {}", membership.uid), limit, membership.ranks));
  std::vector<std::vector<Bytes>> answers(mechanisms_.size());
  for (const Bytes& word : said) {
    Unpacker unpacker(word);
    for (auto& of_mechanism : answers) of_mechanism.push_back(unpacker.bytes());
  }
  return answers;
}

}  // namespace hymn::detail
