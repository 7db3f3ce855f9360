#include "runtime/world/group_meeting.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/tag_text.hpp"
#include "collectives/fake/fake_algorithms.hpp"
#include "collectives/pairwise/pairwise.hpp"
#include "collectives/pairwise/pairwise_models.hpp"
#include "collectives/planner/peer_use.hpp"
#include "control/coordinator.hpp"
#include "hymn/settings.hpp"
#include "p2p/exchange_port.hpp"
#include "runtime/group/group_members.hpp"
#include "runtime/mechanisms/gpu_path.hpp"
#include "runtime/world/group_spots.hpp"

namespace hymn::detail {
namespace {

// On the exchange of the group.
constexpr std::uint64_t tag_group = group_tags::of_making | 1;

// Of ranks that make several groups at the same time only the latest is known: of those it is not
// asked who was heard of. Nobody was heard of where it is the first that has not come.
Membership suspects(const TimeoutError& error, const Membership& membership) {
  const std::vector<int>& missing = error.context().missing;
  const bool is_exact = !missing.empty() && missing.front() != membership.ranks.front();
  Membership asked = membership;
  if (is_exact && control::is_local(membership.uid)) asked.ranks = missing;
  return asked;
}

// For messages.
/// All of them, or of many the first and the last, and a number that tells lists apart.
std::string words_of(const std::vector<int>& ranks) {
  constexpr std::size_t told = 32;
  if (ranks.size() <= told) return fmt::format("[{}]", fmt::join(ranks, ", "));
  const std::string_view bytes(reinterpret_cast<const char*>(ranks.data()),
                               ranks.size() * sizeof(int));
  return fmt::format("[{}, …, {}] ({}, list {:016x})", fmt::join(std::span(ranks).first(3), ", "),
                     ranks.back(), ranks.size(), std::hash<std::string_view>()(bytes));
}

std::string name_of(const Membership& membership) {
  return fmt::format("group {} of ranks {}{}", membership.uid, words_of(membership.ranks),
                     with_tag(membership.tag));
}

}  // namespace

GroupMeans GroupMeeting::hold(const Membership& membership, const GroupOptions& options,
                              Timeout limit) {
  std::shared_ptr<Exchange> exchange = means_.mux.channel(membership.uid);
  Agreement agreement = world_.settings.fake != nullptr
                            ? imagine(membership)
                            : agree(*exchange, membership, options, limit);
  // From here on all have met: who is late now has been waited for in this call.
  try {
    agreement.answers = answer(*exchange, membership, agreement.offers, limit);
    return find_means(std::move(exchange), membership, options, std::move(agreement), limit);
  } catch (const MissedMeeting& late) {
    throw TimeoutError(late.problem(), late.waited(), late.context());
  }
}

void GroupMeeting::stand_by(const Membership& membership, const GroupOptions& options,
                            Timeout limit) {
  means_.mux.pass_over(membership.uid);
  const Patience standing =
      world_.patience(fmt::format("standing by while {} is made", name_of(membership)), limit);
  for (const auto& mechanism : means_.mechanisms)
    mechanism->stand_by(membership, options, standing);
}

// All of them, whatever one fails with: what they hold is shared with other members.
void GroupMeeting::close(const Membership& membership, bool clean) {
  std::exception_ptr error;
  for (const auto& mechanism : means_.mechanisms) {
    try {
      mechanism->close(membership, clean);
    } catch (...) {
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

bool GroupMeeting::serves_own_threads() const {
  return std::ranges::all_of(means_.mechanisms,
                             [](const auto& mechanism) { return mechanism->serves_own_threads(); });
}

void GroupMeeting::give_up(const Membership& membership, const std::string& what) {
  const auto context_of = [&](const Error& error) {
    world_.life.mark_failed();
    close(membership, false);
    ErrorContext context = error.context();
    context.missing = world_.peers.culprits_for(context.missing);
    // If this rank leaves now, those who wait for it must not take it for the culprit.
    world_.failures.note({error.problem(), context.missing});
    return context;
  };
  try {
    throw;
  } catch (const ConfigError&) {
    close(membership, true);  // all members have found it
    throw;
  } catch (const AgreedUsageError& error) {
    close(membership, true);
    throw UsageError(error.problem(), error.context());
  } catch (const MissedMeeting& late) {
    world_.incidents.report({"timeout", fmt::format("making {}: this rank was late", what)});
    throw TimeoutError(late.problem(), late.waited(), context_of(late));
  } catch (const TimeoutError& error) {
    world_.incidents.report({"timeout", fmt::format("making {}: not all have come", what)});
    const TimeoutError told = world_.inquiry.with_missing(error, suspects(error, membership));
    throw TimeoutError(told.problem(), told.waited(), context_of(told));
  } catch (const PeerError& error) {
    throw PeerError(error.problem(), context_of(error));
  } catch (...) {
    world_.life.mark_failed();
    close(membership, false);
    throw;
  }
}

GroupMeans GroupMeeting::find_means(std::shared_ptr<Exchange> exchange,
                                    const Membership& membership, const GroupOptions& options,
                                    Agreement agreement, Timeout limit) {
  GroupShape shape = GroupMembers::shape_of(membership, world_.rank());
  shape.reproducibility = options.reproducibility.value_or(world_.settings.reproducibility);
  const PathPolicy path = policy_of(options, world_.settings.path);
  for (std::size_t i = 0; i < means_.mechanisms.size(); ++i)
    means_.mechanisms[i]->adjust(agreement.layout, agreement.offers.of[i]);
  require_gpu_path(path, agreement.layout);
  const bool on_gpus = agreement.layout.ranks_without_gpu() == 0;
  NewGroup made{
      .membership = membership,
      .shape = shape,
      .exchange = exchange,
      .patience = world_.completing_patience("making the communicator of " + name_of(membership),
                                             limit, membership.ranks),
      .transports = {shape.size, make_exchange_port(exchange, membership.ranks,
                                                    [mux = means_.mux.shared_from_this(),
                                                     uid = membership.uid](std::size_t messages) {
                                                      mux->count_dropped(uid, messages);
                                                    })},
      .options = options,
      .logger = world_.logger,
      .end_process = [this](const Error& why) { world_.incidents.end_process(why.what()); }};
  {
    const Incidents::OuterCall call(world_.incidents, "what makes a group's communicator");
    for (std::size_t i = 0; i < means_.mechanisms.size(); ++i)
      means_.mechanisms[i]->open(made, agreement.offers.of[i], agreement.answers.of[i]);
  }
  PlanContext context = plan_context(std::move(agreement.layout), path);
  if (world_.settings.fake != nullptr)
    add_fake_algorithms(made.algorithms, std::make_shared<const PlanContext>(context), shape);
  else  // What carried the bootstrap carries data too, where nothing better does.
    add_pairwise_algorithms(made.algorithms, pairwise_models::over_exchange,
                            made.transports.least(), shape);
  for (const auto& algorithm : made.algorithms)
    algorithm->set_recorded_as(
        world_.recorder.method_number(algorithm->path(), algorithm->model().method));
  const SelectionRules rules{.path = path,
                             .algo = options.algo.empty()
                                         ? world_.settings.algo
                                         : AlgoPolicy::parse(options.algo, "GroupOptions.algo"),
                             .reproducibility = shape.reproducibility};
  auto selector = std::make_unique<Selector>(std::move(made.algorithms), rules, std::move(context));
  for (const auto& tell : made.want_picker)
    tell([all = selector.get()](const Request& request) -> Algorithm& {
      return all->pick(request);
    });
  return {.selector = std::move(selector),
          .reach = std::move(made.reach),
          .nccl = made.given<NcclChannel>(),
          .exchange = std::move(exchange),
          .blocks = agreement.blocks,
          .on_gpus = on_gpus};
}

// Nobody has to be asked who is not there.
GroupMeeting::Agreement GroupMeeting::imagine(const Membership& membership) const {
  Agreement agreement;
  agreement.blocks = false;
  agreement.layout = world_.settings.fake->layout_of(membership.ranks);
  agreement.offers.of.resize(means_.mechanisms.size());
  return agreement;
}

// The members of a new group compare what they were called with, and learn where each other are and
// what each mechanism of the others has to offer. Then all are known to be there.
GroupMeeting::Agreement GroupMeeting::agree(Exchange& exchange, const Membership& membership,
                                            const GroupOptions& options, Timeout making) {
  const std::string mine = fmt::format(
      "ranks {}, path '{}', algo '{}', reproducibility '{}', nccl '{}'", words_of(membership.ranks),
      options.path, options.algo,
      options.reproducibility ? to_string(*options.reproducibility) : "",
      hymn::describe(nccl_options(options.nccl, world_.settings.config.nccl, "GroupOptions.nccl")));
  const Timeout limit = options.timeout.or_else(world_.settings.default_timeout);
  // At level info a call that is under way may have to be given up.
  const bool blocks = limit.is_none() && !shares_memory() &&
                      world_.settings.checks != CheckLevel::info &&
                      std::all_of(means_.mechanisms.begin(), means_.mechanisms.end(),
                                  [](const auto& m) { return m->may_block(); });
  Packer packer;
  packer.text(mine).number(blocks ? 1 : 0);
  pack_spot(packer, means_.job, membership.ranks);
  for (const auto& mechanism : means_.mechanisms)
    packer.bytes(mechanism->offer(membership, options));
  Agreement agreement;
  agreement.offers.said =
      all_gather(exchange, membership.ranks, tag_group, packer.packed(),
                 world_.making_patience("making " + name_of(membership), making, membership.ranks));
  agreement.offers.of.resize(means_.mechanisms.size());
  const std::vector<Bytes>& said = agreement.offers.said;
  LayoutReader layout;
  for (std::size_t member = 0; member < said.size(); ++member) {
    Unpacker unpacker(said[member]);
    const std::string theirs = unpacker.text();
    if (theirs != mine)
      throw UsageError(fmt::format("group {} was asked for with {} here but with {} on rank {}",
                                   membership.uid, mine, theirs, membership.ranks[member]),
                       {.rank = world_.rank(),
                        .operation = "new_group",
                        .remedy = "make the same calls of new_group on all ranks"});
    const bool they_block = unpacker.number() == 1;
    agreement.blocks = agreement.blocks && they_block;
    layout.read(unpacker);
    for (auto& of_mechanism : agreement.offers.of) of_mechanism.push_back(unpacker.view());
  }
  agreement.layout = layout.layout();
  return agreement;
}

// What was offered may fail on some member: all must know before they count on it.
GroupMeeting::Words GroupMeeting::answer(Exchange& exchange, const Membership& membership,
                                         const Words& offers, Timeout limit) {
  // The others wait just as long for what is said here: it must not come at the last moment.
  const Duration soon = limit.is_none() ? Duration::max() : limit.duration() / 2;
  Packer packer;
  for (std::size_t i = 0; i < means_.mechanisms.size(); ++i)
    packer.bytes(means_.mechanisms[i]->answer(membership, offers.of[i], soon));
  Words answers;
  answers.said = all_gather(
      exchange, membership.ranks, tag_group, packer.packed(),
      world_.completing_patience("making " + name_of(membership), limit, membership.ranks));
  answers.of.resize(means_.mechanisms.size());
  for (const Bytes& word : answers.said) {
    Unpacker unpacker(word);
    for (auto& of_mechanism : answers.of) of_mechanism.push_back(unpacker.view());
  }
  return answers;
}

PlanContext GroupMeeting::plan_context(GroupLayout layout, const PathPolicy& path) const {
  return {.layout = std::move(layout),
          .machines = means_.job.machines,
          .tuning = means_.tuning,
          .peers = peer_use(path, world_.settings.config.p2p_compat)};
}

// Messages through shared memory move in hymn's calls only: a rank that was left in MPI's blocking
// call would keep back what it has begun to send, and for which a peer may wait that MPI waits for.
bool GroupMeeting::shares_memory() const {
  return means_.job.places.size() > 1 &&
         (world_.settings.path.allows("shm") || world_.settings.path.allows("hierarchical"));
}

}  // namespace hymn::detail
