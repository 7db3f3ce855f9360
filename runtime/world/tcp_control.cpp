#include "runtime/world/tcp_control.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <system_error>

#include "base/descriptor.hpp"
#include "control/control_client.hpp"
#include "control/interface.hpp"
#include "control/process_watch.hpp"

namespace hymn {
namespace {

using control::ControlClient;
using control::CoordinatorEndpoint;
using control::Neighbour;

constexpr std::size_t some_spare = 2;
constexpr const char* remedy_for_few_files =
    "raise the limit on open files (ulimit -n), or switch the control plane off: HYMN_CONTROL=0";
// Without these, rank 0 and those next to it in the order, there is no control plane; the other
// ranks run coordinators where they can.
constexpr std::size_t first_coordinators = 3;

/// What a rank tells the others.
struct ControlOffer {
  std::string endpoint{};  ///< of its coordinator; empty: it keeps none
  std::string problem{};   ///< why it cannot take its part
  std::string remedy{};
  std::optional<MemoryKey> recorder{};

  Bytes packed() const {
    Packer packer;
    packer.text(endpoint).text(problem).text(remedy).number(recorder ? 1 : 0);
    if (recorder) recorder->pack(packer);
    return packer.packed();
  }
  static ControlOffer read(const Bytes& bytes) {
    Unpacker unpacker(bytes);
    ControlOffer offer;
    offer.endpoint = unpacker.text();
    offer.problem = unpacker.text();
    offer.remedy = unpacker.text();
    if (unpacker.number() != 0) offer.recorder = MemoryKey::unpack(unpacker);
    return offer;
  }
};

/// How many more files can be opened; it stops at `enough`.
std::size_t count_descriptors(std::size_t enough) {
  std::vector<Descriptor> opened;
  while (opened.size() < enough) {
    opened.emplace_back(::eventfd(0, EFD_CLOEXEC));
    if (!opened.back()) return opened.size() - 1;
  }
  return enough;
}

/// A connection that cannot be had looks to others like the end of this rank.
void require_descriptors(ControlOffer& offer, std::size_t needed) {
  const std::size_t found = count_descriptors(needed);
  if (found == needed) return;
  offer.problem = fmt::format(
      "it needs {} more file descriptors, but only {} are left (RLIMIT_NOFILE)", needed, found);
  offer.remedy = remedy_for_few_files;
}

/// Asio throws std::system_error where files are short.
template <class Start>
auto start_typed(Start start) {
  try {
    return start();
  } catch (const std::system_error& error) {
    throw ResourceError(fmt::format("the control plane cannot be started: {}", error.what()),
                        {.remedy = remedy_for_few_files});
  }
}

bool has_ended_its_world(const RecorderView& view) {
  const std::uint32_t farewell = view.header().farewell.load(std::memory_order_acquire);
  return farewell == RecorderHeader::farewell_goodbye || farewell >= RecorderHeader::farewell_error;
}

/// What a process that has ended, or has ended its world, tells by its memory.
PeerNews read_end(int rank, const RecorderView& view) {
  PeerNews news{.rank = rank, .state = PeerState::dead};
  const std::uint32_t farewell = view.header().farewell.load(std::memory_order_acquire);
  if (farewell == RecorderHeader::farewell_goodbye) {
    news.state = PeerState::left;
    news.detail = "it has ended its world";
  } else if (farewell >= RecorderHeader::farewell_after) {
    news.state = PeerState::left;
    news.detail = "it has ended its world after an error";
    news.culprits = {static_cast<int>(farewell - RecorderHeader::farewell_after)};
  } else if (farewell >= RecorderHeader::farewell_error) {
    news.state = PeerState::left;
    news.detail = "it has ended its world because of an error";
    news.culprits = {static_cast<int>(farewell - RecorderHeader::farewell_error)};
    news.broke_off = true;
  } else if (farewell >= RecorderHeader::farewell_exit) {
    news.detail = fmt::format("its process has exited with status {} without ending its world",
                              farewell - RecorderHeader::farewell_exit);
  }
  news.marks = view.marks();
  return news;
}

// All join at about the same time; one that is stopped now must not keep the others for long.
constexpr Duration longest_joining = std::chrono::seconds(2);

}  // namespace

struct TcpControl::Life {
  ControlSite site;
  Token token;
  std::map<int, PeerRecorder> recorders;  ///< of other ranks on this host
  std::unique_ptr<ControlClient> control_client;
};

TcpControl::TcpControl(std::string interface, Logger logger)
    : interface_(std::move(interface)), logger_(logger), life_(std::make_unique<Life>()) {}

TcpControl::~TcpControl() { close(); }

std::string TcpControl::draw_secret() { return Token::random().text(); }

Bytes TcpControl::offer(const ControlSite& site) {
  life_->site = site;
  life_->token = Token::parse(site.secret);
  if (site.size == 1) life_->site.coordinators.clear();
  ControlOffer offer{.recorder = site.recorder};
  control::ControlClientOptions options;
  options.rank = site.rank;
  options.size = site.size;
  options.log = [logger = logger_](std::string_view text) { logger.info(text); };
  // One to the coordinator, one to watch each neighbour, and some for what is opened for a moment
  // only; on a coordinator one for each rank, too.
  const std::size_t needed = site.size == 1 ? 0 : site.here.size() + some_spare;
  const std::size_t needed_by_coordinator = needed + static_cast<std::size_t>(site.size);
  const auto& coordinators = life_->site.coordinators;
  const auto place =
      static_cast<std::size_t>(std::ranges::find(coordinators, site.rank) - coordinators.begin());
  const bool must_keep_coordinator = place < std::min(first_coordinators, coordinators.size());
  const bool keeps_coordinator =
      must_keep_coordinator || (place < coordinators.size() &&
                                count_descriptors(needed_by_coordinator) == needed_by_coordinator);
  // What goes wrong here is told to all, who must not wait for this rank; but of so many
  // coordinators one less is no harm.
  try {
    if (keeps_coordinator)
      offer.endpoint = start_typed([&] { return open_coordinator(options, place); });
  } catch (const Error& error) {
    if (must_keep_coordinator) {
      offer.problem = error.what();
      offer.remedy =
          "set HYMN_INTERFACE on all ranks, or switch the control plane off: HYMN_CONTROL=0";
    }
    logger_.info(
        fmt::format("this rank runs no coordinator of the control plane: {}", error.what()));
  }
  try {
    if (!life_->control_client)
      life_->control_client =
          start_typed([&] { return std::make_unique<ControlClient>(std::move(options)); });
    require_descriptors(offer, must_keep_coordinator ? needed_by_coordinator : needed);
  } catch (const ResourceError& error) {
    offer.problem = error.problem();
    offer.remedy = error.context().remedy;
  }
  return offer.packed();
}

std::string TcpControl::open_coordinator(control::ControlClientOptions options, std::size_t place) {
  options.coordinator.index = static_cast<int>(place);
  // Who has not come soon after a coordinator has taken over is not coming.
  if (place > 0) options.coordinator.absent_after = std::chrono::seconds(5);
  const auto found =
      choose_interface(interface_addresses(), interface_, life_->site.one_host, "HYMN_INTERFACE");
  options.listen = Endpoint(found.address, 0);
  auto control_client = std::make_unique<ControlClient>(std::move(options));
  std::string endpoint = to_string(control_client->open_coordinator(life_->token));
  life_->control_client = std::move(control_client);
  return endpoint;
}

std::vector<Neighbour> TcpControl::look_around(std::span<const Bytes> offers) {
  std::vector<Neighbour> neighbours;
  for (const auto& [rank, pid, in_sight] : life_->site.here) {
    if (rank == life_->site.rank) continue;
    const ControlOffer offer = ControlOffer::read(offers[static_cast<std::size_t>(rank)]);
    if (!offer.recorder) continue;
    try {
      // That it is there, behind this process, shows that the number means the right process.
      const PeerRecorder& recorder =
          life_->recorders.try_emplace(rank, *offer.recorder).first->second;
      neighbours.push_back(
          {.rank = rank,
           .pid = pid,
           .look = [who = rank, &recorder] { return read_end(who, recorder.view()); },
           .has_left = [&recorder] { return has_ended_its_world(recorder.view()); }});
    } catch (const ResourceError& error) {
      // It may have ended since it made its offer, or files are short here.
      if (in_sight)
        neighbours.push_back({.rank = rank, .pid = pid});
      else
        logger_.info(fmt::format("rank {} is not watched from here: {}", rank, error.what()));
    }
  }
  return neighbours;
}

void TcpControl::open(std::shared_ptr<control::Agent> agent, std::span<const Bytes> offers,
                      Calls calls) {
  std::vector<std::string> endpoints;
  for (const Bytes& bytes : offers) {
    ControlOffer offer = ControlOffer::read(bytes);
    if (!offer.problem.empty())
      throw ConfigError(fmt::format("rank {} cannot take part in the control plane: {}",
                                    endpoints.size(), offer.problem),
                        {.rank = life_->site.rank, .remedy = std::move(offer.remedy)});
    endpoints.push_back(std::move(offer.endpoint));
  }
  std::vector<CoordinatorEndpoint> coordinators;
  for (const int rank : life_->site.coordinators)
    if (const std::string& endpoint = endpoints[static_cast<std::size_t>(rank)]; !endpoint.empty())
      coordinators.push_back({rank, parse_endpoint(endpoint)});
  life_->control_client->set_on_beat(std::move(calls.beat));
  life_->control_client->set_on_move(std::move(calls.move));
  life_->control_client->run(life_->token, std::move(coordinators), std::move(agent),
                             std::move(calls.marks), look_around(offers));
  // Processes on other hosts are seen by nobody but the coordinator: one that ended before it was
  // known there would be missed only after half a minute.
  if (!life_->site.one_host) life_->control_client->await_coordinator(longest_joining);
}

void TcpControl::post(const control::Message& message) {
  if (life_->control_client) life_->control_client->post(message);
}

void TcpControl::flush() {
  if (life_->control_client) life_->control_client->flush();
}

const PeerRecorder* TcpControl::recorder_of(int rank) const {
  const auto found = life_->recorders.find(rank);
  return found == life_->recorders.end() ? nullptr : &found->second;
}

// Who does not see this process, nor what it has noted, has nothing but its goodbye.
void TcpControl::close() {
  if (life_->control_client) life_->control_client->expect_ends();
  if (!life_->site.one_host) flush();
  if (life_->control_client) life_->control_client->close();
}

}  // namespace hymn
