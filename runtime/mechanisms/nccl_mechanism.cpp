#include "runtime/mechanisms/nccl_mechanism.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "collectives/nccl/agreement.hpp"
#include "collectives/nccl/nccl_algorithm.hpp"
#include "collectives/nccl/nccl_models.hpp"
#include "hymn/error.hpp"
#include "p2p/exchange_port.hpp"
#include "runtime/mechanisms/gpu_path.hpp"

namespace hymn {
namespace {

// Tags of the group's exchange, beside that of world_meeting.cpp, for NCCL's ids.
constexpr std::uint64_t tag_nccl = group_tags::of_making | 2;
constexpr std::uint64_t tag_nccl_pairs = group_tags::of_making | 3;
constexpr std::uint64_t tag_nccl_columns = group_tags::of_making | 4;

// NCCL's threads are given so long when a world ends; who hangs then is left behind.
constexpr Duration longest_nccl_end = std::chrono::seconds(5);

/// The first version of NCCL that can run several ranks on one GPU, where it is asked to.
constexpr int first_sharing_version = 23000;

bool wants_sharing() {
  const char* const value = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return value != nullptr && std::string_view(value) == "1";
}

}  // namespace

/// What a member says of itself.
struct NcclMechanism::NcclOffer {
  std::string gpu;  ///< as NcclMechanism names it; empty: it has none
  bool shares = false;
  Bytes nccl;            ///< as introduce()
  std::string no_casts;  ///< why it cannot reduce in float32; empty: it can, or was not asked to
  int host = 0;          ///< index in the world's layout
  int place = -1;        ///< of its GPU in the machine there; -1: it has none
  bool names_gpu = false;
  std::string refusal;  ///< why the GPU that it names is not there; empty: it is, or none is named
  std::string remedy;   ///< for that

  static NcclOffer read(Word said) {
    Unpacker unpacker(said);
    NcclOffer offer;
    offer.gpu = unpacker.text();
    offer.shares = unpacker.number() != 0;
    offer.nccl = unpacker.bytes();
    offer.no_casts = unpacker.text();
    offer.host = static_cast<int>(unpacker.number());
    offer.place = static_cast<int>(unpacker.number()) - 1;
    offer.names_gpu = unpacker.number() != 0;
    offer.refusal = unpacker.text();
    offer.remedy = unpacker.text();
    return offer;
  }
  static std::vector<NcclOffer> read_all(std::span<const Word> said) {
    std::vector<NcclOffer> offers;
    for (const Word word : said) offers.push_back(read(word));
    return offers;
  }
  Bytes packed() const {
    Packer packer;
    packer.text(gpu).number(shares ? 1 : 0).bytes(nccl).text(no_casts);
    packer.number(static_cast<std::uint64_t>(host));
    packer.number(static_cast<std::uint64_t>(place + 1)).number(names_gpu ? 1 : 0);
    packer.text(refusal).text(remedy);
    return packer.packed();
  }
};

bool NcclMechanism::names_gpus(const std::vector<NcclOffer>& offers) {
  return std::any_of(offers.begin(), offers.end(),
                     [](const NcclOffer& offer) { return offer.names_gpu; });
}

int NcclMechanism::most_on_one_gpu(const std::vector<NcclOffer>& offers) {
  std::map<std::string, int> ranks;
  int most = 0;
  for (const NcclOffer& offer : offers) most = std::max(most, ++ranks[offer.gpu]);
  return most;
}

std::vector<Bytes> NcclMechanism::introductions(const std::vector<NcclOffer>& offers) {
  std::vector<Bytes> words;
  for (const NcclOffer& offer : offers) words.push_back(offer.nccl);
  return words;
}

std::string NcclMechanism::refusal_of(const std::vector<NcclOffer>& offers,
                                      std::span<const int> members) {
  const auto size = offers.size();
  const auto without = static_cast<std::size_t>(std::count_if(
      offers.begin(), offers.end(), [](const NcclOffer& offer) { return offer.gpu.empty(); }));
  if (without > 0) return fmt::format("{} of {} ranks have no GPU", without, size);
  if (std::string lacking = who_lacks_nccl(members, introductions(offers)); !lacking.empty())
    return lacking;
  const bool all_share = std::all_of(offers.begin(), offers.end(),
                                     [](const NcclOffer& offer) { return offer.shares; });
  if (const int sharers = most_on_one_gpu(offers); sharers > 1 && !all_share)
    return fmt::format("{} ranks share one GPU, which NCCL refuses", sharers);
  return "";
}

namespace {

NcclSettings settings_of(const NcclOptions& options) {
  constexpr int unset = nccl_api::Config::unset;
  return {.min_ctas = options.min_ctas.value_or(unset),
          .max_ctas = options.max_ctas.value_or(unset),
          .cga_cluster_size = options.cga_size.value_or(unset),
          .net_name = options.net_name,
          .blocking = options.blocking.value_or(false)};
}

// Later NCCL's kernels may be on the GPU, for which the driver waits when it loads others. Where it
// fails, the first check says so.
void load_nan(const RankGpu& gpu) noexcept {
  try {
    gpu.nan->load();
  } catch (const std::exception&) {  // NOLINT: see above
  }
}

/// Why this rank cannot reduce in float32; empty: it can. A kernel that is loaded later might be so
/// while a stream is captured.
std::string find_casts(const RankGpu& gpu) noexcept {
  try {
    gpu.casts->load();
    return gpu.gpu->lacks_stream_memory();
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace

NcclMechanism::NcclMechanism(GpuLibraries libraries, PathPolicy path, const Config& config)
    : libraries_(std::move(libraries)),
      path_(std::move(path)),
      defaults_(config.nccl),
      high_priority_(config.high_priority_stream),
      nan_check_(config.nan_check),
      gpus_(libraries_.gpus),
      queue_(std::make_shared<LaunchQueue>()) {}

NcclMechanism::~NcclMechanism() = default;

NcclOptions NcclMechanism::nccl_of(const GroupOptions& options) const {
  return nccl_options(options.nccl, defaults_, "GroupOptions.nccl");
}

void NcclMechanism::placed(const JobMap& job) { gpus_.placed(job); }

const RankGpu* NcclMechanism::gpu_of(const GroupOptions& options) {
  return options.gpu ? &gpus_.named(*options.gpu) : gpus_.own();
}

// What cannot be had of it is told: others wait for this rank's word.
Bytes NcclMechanism::offer(const Membership&, const GroupOptions& options) {
  NcclOffer mine;
  mine.host = gpus_.host();
  mine.names_gpu = options.gpu.has_value();
  const RankGpu* gpu = nullptr;
  try {
    gpu = gpu_of(options);
  } catch (const UsageError& error) {
    mine.refusal = error.problem();
    mine.remedy = error.context().remedy;
    gpu = gpus_.own();
  }
  if (gpu != nullptr) offer_gpu(mine, *gpu, options);
  return mine.packed();
}

void NcclMechanism::offer_gpu(NcclOffer& mine, const RankGpu& gpu, const GroupOptions& options) {
  mine.gpu = gpu.name;
  mine.place = gpu.place;
  if (options.nan_check.value_or(nan_check_)) load_nan(gpu);
  if (policy_of(options, path_).allows(paths::nccl)) {
    if (nccl_ == nullptr) nccl_ = &libraries_.nccl();
    mine.shares = nccl_->version >= first_sharing_version && wants_sharing();
    mine.nccl = introduce(*nccl_);
    if (reduces_in_float32(options)) mine.no_casts = find_casts(gpu);
  } else {
    mine.nccl = introduce({.functions = {}, .version = 0, .problem = "the path is not allowed"});
  }
}

// The layout was made of the ranks' own GPUs.
void NcclMechanism::adjust(GroupLayout& layout, std::span<const Word> said) const {
  const std::vector<NcclOffer> offers = NcclOffer::read_all(said);
  if (!names_gpus(offers)) return;
  std::vector<int> hosts;  // in the order of the layout
  std::map<int, std::vector<int>> gpus;
  for (const NcclOffer& offer : offers) {
    if (!gpus.contains(offer.host)) hosts.push_back(offer.host);
    gpus[offer.host].push_back(offer.place);
  }
  for (std::size_t i = 0; i < hosts.size(); ++i)
    summarise_gpus(gpus_.machine_of(layout.hosts[i]), gpus[hosts[i]], layout.hosts[i]);
}

void NcclMechanism::open(NewGroup& group, std::span<const Word> said, std::span<const Word>) {
  const std::vector<NcclOffer> offers = NcclOffer::read_all(said);
  // Ranks outside, who know nothing of the members' GPUs, split the world's communicator with them.
  if (names_gpus(offers) && splits_early(group.membership, group.options))
    NcclChannel::split_nothing_from(*world_, group.patience);
  require_named(offers);
  if (std::all_of(offers.begin(), offers.end(), [](const NcclOffer& o) { return o.gpu.empty(); }))
    return;
  const RankGpu* const gpu = gpu_of(group.options);
  std::string refusal = refusal_of(offers, group.membership.ranks);
  if (refusal.empty()) {
    open_nccl(group, offers, *gpu);
  } else {
    const PathPolicy policy = policy_of(group.options, path_);
    if (leaves_only(paths::nccl, policy))
      throw ConfigError(
          fmt::format("the path setting '{}' leaves only NCCL, but {}", policy.text(), refusal),
          {.remedy = "allow another path, or fix this"});
    group.algorithms.push_back(std::make_unique<AbsentAlgorithm>(
        nccl_models::nccl, nccl_models::nccl.serves, std::move(refusal)));
  }
  if (gpu == nullptr) {
    group.reach.why_not = "this rank has no GPU";
    return;
  }
  group.reach.gpu = gpu->gpu;
  group.reach.nan = gpu->nan;
  auto staged = std::make_unique<StagedAlgorithm>(gpu->staging, group.shape.rank);
  group.want_picker.push_back(
      [staged = staged.get()](AlgorithmPicker picker) { staged->carry_by(std::move(picker)); });
  group.algorithms.push_back(std::move(staged));
}

void NcclMechanism::require_named(const std::vector<NcclOffer>& offers) {
  for (const NcclOffer& offer : offers)
    if (!offer.refusal.empty())
      throw AgreedUsageError(offer.refusal, {.operation = "new_group", .remedy = offer.remedy});
}

void NcclMechanism::open_nccl(NewGroup& group, const std::vector<NcclOffer>& offers,
                              const RankGpu& gpu) {
  require_same_nccl(group.membership.ranks, introductions(offers));
  const bool in_float32 = reduces_in_float32(group.options);
  if (in_float32) require_casts(group.membership.ranks, offers);
  const std::shared_ptr<NcclChannel> nccl = make_channel(group, gpu);
  group.give(nccl);
  {
    std::lock_guard lock(mutex_);
    open_[group.membership.uid] = nccl;
  }
  connect(group, !names_gpus(offers), nccl);
  group.algorithms.push_back(make_nccl_algorithm(nccl, in_float32));
  if (in_float32) group.algorithms.push_back(make_float32_nccl_algorithm(nccl, gpu.casts));
}

void NcclMechanism::require_casts(std::span<const int> members,
                                  const std::vector<NcclOffer>& offers) {
  for (std::size_t i = 0; i < offers.size(); ++i)
    if (!offers[i].no_casts.empty())
      throw ConfigError(
          fmt::format("reduce_in_float32 is requested of NCCL, but rank {} cannot do it: {}",
                      members[i], offers[i].no_casts),
          {.remedy = "unset it (HYMN_NCCL_REDUCE_IN_FLOAT32, GroupOptions::nccl), or fix this"});
}

std::shared_ptr<NcclChannel> NcclMechanism::make_channel(const NewGroup& group,
                                                         const RankGpu& gpu) const {
  NcclParts nccl{.nccl = nccl_->functions,
                 .enter_gpu = [device = gpu.gpu] { device->make_current(); },
                 .cuda = &libraries_.gpus->cuda,
                 .settings = settings_of(nccl_of(group.options))};
  return std::make_shared<NcclChannel>(NcclChannelParts{
      .nccl = std::move(nccl),
      .gpu = gpu.gpu,
      .queue = queue_,
      .exchange = group.exchange,
      .members = group.membership.ranks,
      .tag = tag_nccl,
      .pair_tag = tag_nccl_pairs,
      .column_tag = tag_nccl_columns,
      .shape = group.shape,
      .high_priority = group.options.high_priority_stream.value_or(high_priority_)});
}

// By what all members see alike: their options, and what the group of all ranks is like.
void NcclMechanism::connect(const NewGroup& group, bool is_on_own_gpus,
                            const std::shared_ptr<NcclChannel>& channel) {
  const Patience& patience = group.patience;
  const NcclInit init = init_of(group.options);
  const bool is_twin = is_on_own_gpus && is_split(group.membership, group.options) &&
                       world_->parts().members == channel->parts().members;
  if (is_on_own_gpus && splits_early(group.membership, group.options))
    channel->split_from(world_, patience);
  else if (init == NcclInit::eager)
    channel->make(patience, true);
  else if (is_twin && (init == NcclInit::lazy || world_init_ == NcclInit::background))
    channel->set_twin(world_);
  else if (init == NcclInit::background)
    channel->make(patience, false);
  if (group.membership.uid != 0) return;
  std::lock_guard lock(mutex_);
  world_ = channel;
  world_init_ = init;
}

// What is left of a group that has shrunk cannot be split from one that has lost ranks.
bool NcclMechanism::is_split(const Membership& membership, const GroupOptions& options) const {
  return world_ != nullptr && membership.epoch == 0 && !members_alone(options);
}

bool NcclMechanism::splits_early(const Membership& membership, const GroupOptions& options) const {
  return world_init_ == NcclInit::eager && is_split(membership, options) &&
         policy_of(options, path_).allows(paths::nccl);
}

void NcclMechanism::stand_by(const Membership& membership, const GroupOptions& options,
                             const Patience& patience) {
  if (splits_early(membership, options)) NcclChannel::split_nothing_from(*world_, patience);
}

void NcclMechanism::close(const Membership& membership, bool clean) {
  std::lock_guard lock(mutex_);
  const auto found = open_.find(membership.uid);
  if (found == open_.end()) return;
  const std::shared_ptr<NcclChannel> channel = std::move(found->second);
  open_.erase(found);
  ending_.push_back(channel);
  if (!clean) return channel->abort();
  if (channel != world_) return channel->finish();
  channel->rest();  // groups may still be split from it
  world_rests_ = true;
}

// NCCL's ranks wait for each other at the end. Where that takes too long, or some may not come,
// they are given up.
void NcclMechanism::shut_down(WorldEnd end) {
  std::lock_guard lock(mutex_);
  if (world_rests_) world_->finish();
  const auto are_gone = [this] {
    return std::all_of(ending_.begin(), ending_.end(),
                       [](const auto& channel) { return channel->is_gone(); });
  };
  const auto wait = [&are_gone](Duration limit) {
    Patience patience;
    patience.deadline = Deadline::after(limit);
    PatientWait(patience).until(are_gone);
  };
  if (end == WorldEnd::clean || end == WorldEnd::littered) wait(longest_nccl_end);
  if (!are_gone()) {
    for (const auto& channel : ending_) channel->abort();
    wait(std::chrono::seconds(1));
  }
  ending_.clear();
  world_ = nullptr;
}

}  // namespace hymn
