#include "control/control_client.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>

#include "base/helper_thread.hpp"
#include "control/run_handlers.hpp"
#include "hymn/error.hpp"

namespace hymn::control {
namespace {

// How long the coordinators are tried, all of them, before a rank gives up.
constexpr Duration longest_search = std::chrono::seconds(5);
// What is posted while there is no coordinator. What is too much was said for nobody.
constexpr std::size_t most_waiting = 1000;

// What is said last is waited for, and no longer.
constexpr Duration longest_flush = std::chrono::milliseconds(500);

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

ControlClient::ControlClient(ControlClientOptions options)
    : options_(std::move(options)), io_(1), stay_(asio::make_work_guard(io_)) {
  options_.coordinator.is_seen_alive = [this](int rank) { return is_seen_alive(rank); };
  // Who has said goodbye misses nothing when the coordinator goes, too: that is how a good job
  // ends.
  options_.log = [this, log = std::move(options_.log)](std::string_view text) {
    if (log && !has_left_) log(text);
  };
}

ControlClient::~ControlClient() { close(); }

Endpoint ControlClient::open_coordinator(const Token& token) {
  LinkServer::Handlers handlers;
  handlers.joined = [this](int rank) { joined(rank); };
  handlers.message = [this](int rank, std::span<const std::byte> bytes) {
    try {
      coordinator_->receive(rank, unpack(bytes), now());
    } catch (const Error& error) {
      options_.log(fmt::format("a message from rank {} is dropped: {}", rank, error.what()));
    }
  };
  handlers.lost = [this](int rank, const std::string& why) {
    coordinator_->lose(rank, why, now());
  };
  server_ = std::make_unique<LinkServer>(io_,
                                         LinkServerOptions{.listen = options_.listen,
                                                           .token = token,
                                                           .size = options_.size,
                                                           .service = "control",
                                                           .log = options_.log},
                                         std::move(handlers));
  return server_->endpoint();
}

// Most coordinators are never needed: a seat for each rank is made when the first one comes.
void ControlClient::joined(int rank) {
  if (!coordinator_)
    coordinator_ = std::make_unique<Coordinator>(
        options_.size, options_.coordinator,
        [this](int to, const Message& message) { send_to(to, message); });
  coordinator_->join(rank, now());
}

void ControlClient::run(const Token& token, std::vector<CoordinatorEndpoint> coordinators,
                        std::shared_ptr<Agent> agent, std::function<std::vector<GroupMark>()> marks,
                        std::vector<Neighbour> neighbours) {
  agent_ = std::move(agent);
  marks_ = std::move(marks);
  token_ = token;
  coordinators_ = std::move(coordinators);
  neighbours_ = std::move(neighbours);
  LinkClient::Handlers handlers;
  handlers.connected = [this](std::size_t coordinator) { connected(coordinator); };
  handlers.message = [this](std::span<const std::byte> bytes) { received(bytes); };
  handlers.lost = [this](const std::string& why) { lost_coordinator(why); };
  client_ = make_client(coordinators_, options_.log, std::move(handlers));
  watch();
  timer_ = std::make_unique<asio::steady_timer>(io_);
  soon_ = std::make_unique<asio::steady_timer>(io_);
  asio::post(io_, [this] {
    if (!coordinators_.empty()) client_->connect(0, longest_search);
    beat();
  });
  thread_ = start_helper_thread(
      "hymn-control", [this] { run_handlers(io_, options_.log); }, options_.log);
}

std::unique_ptr<LinkClient> ControlClient::make_client(
    std::span<const CoordinatorEndpoint> coordinators, LinkLog log, LinkClient::Handlers handlers) {
  LinkClientOptions options{
      .rank = options_.rank, .token = token_, .service = "control", .log = std::move(log)};
  for (const CoordinatorEndpoint& coordinator : coordinators)
    options.candidates.push_back(coordinator.endpoint);
  return std::make_unique<LinkClient>(io_, std::move(options), std::move(handlers));
}

// Packed by who says it: that one is told where it is too large.
std::vector<Bytes> ControlClient::packed(Message message) {
  std::vector<Bytes> all;
  for (const Message& part : in_parts(std::move(message))) {
    Bytes bytes = pack(part);
    if (bytes.size() > LinkLimits().frame_bytes)
      throw UsageError(
          fmt::format("a message of {} bytes is larger than the {} that the control plane carries",
                      bytes.size(), LinkLimits().frame_bytes),
          {.remedy = "switch the control plane off in a job of this size (HYMN_CONTROL=0)"});
    all.push_back(std::move(bytes));
  }
  return all;
}

void ControlClient::post(Message message) {
  const bool leaves = std::holds_alternative<Goodbye>(message);
  asio::post(io_, [this, leaves, all = packed(std::move(message))]() mutable {
    has_left_ = has_left_ || leaves;
    for (Bytes& bytes : all) send(std::move(bytes));
  });
}

// Its own coordinator may have gathered more of a rank than fits.
void ControlClient::send_to(int rank, const Message& message) {
  try {
    server_->send(rank, pack(message));
  } catch (const UsageError& error) {
    options_.log(fmt::format("a message for rank {} is dropped: {}", rank, error.problem()));
  }
}

void ControlClient::await_coordinator(Duration limit) const {
  const auto until = now() + limit;
  while (!coordinators_.empty() && !connected_ && now() < until)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
}

void ControlClient::flush() {
  if (!thread_.joinable() || std::this_thread::get_id() == thread_.get_id()) return;
  const auto done = std::make_shared<std::promise<void>>();
  auto passed_on = done->get_future();
  asio::post(io_, [this, done] {
    if (coordinators_.empty() || agent_->has_no_coordinator()) return done->set_value();
    flushes_.emplace(next_flush_, done);
    // Behind all that the agent is just saying to a coordinator that it has come to.
    if (connected_) post(Flush{next_flush_});
    ++next_flush_;
  });
  if (passed_on.wait_for(longest_flush) == std::future_status::ready) return;
  asio::post(io_, [this, done] {
    std::erase_if(flushes_, [&done](const auto& waiting) { return waiting.second == done; });
  });
}

void ControlClient::flushed(std::uint64_t number) {
  if (const auto waiting = flushes_.extract(number)) waiting.mapped()->set_value();
}

void ControlClient::close() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    closing_ = true;
    timer_.reset();
    soon_.reset();
    watch_.reset();
    client_->close();
    messenger_.reset();
    if (server_) server_->close();
    stay_.reset();
  });
  thread_.join();
}

void ControlClient::send(Bytes message) {
  if (connected_)
    client_->send(message);
  else if (waiting_.size() < most_waiting)
    waiting_.push_back(std::move(message));
}

void ControlClient::connected(std::size_t coordinator) {
  const bool first = !std::exchange(ever_connected_, true);
  connected_ = true;
  silent_beats_ = 0;
  sent_marks_.clear();
  // Those before it could not be reached any more.
  for (std::size_t passed = current_; passed < coordinator; ++passed) {
    const int rank = coordinators_[passed].rank;
    passed_.push_back(passed);
    if (!expects_ends_ && find_neighbour(rank) == nullptr)
      agent_->sight({.rank = rank,
                     .state = first ? PeerState::stalled : PeerState::lost,
                     .detail = "the connection to it is lost"});
  }
  current_ = coordinator;
  for (Bytes& message : std::exchange(waiting_, {})) send(std::move(message));
  agent_->reached_coordinator(coordinators_[coordinator].rank);
  for (const auto& [number, waits] : flushes_) post(Flush{number});
}

void ControlClient::received(std::span<const std::byte> bytes) {
  silent_beats_ = 0;
  try {
    Message message = unpack(bytes);
    if (std::holds_alternative<Moved>(message)) return leave_coordinator("");
    if (const auto* const flush = std::get_if<Flush>(&message)) return flushed(flush->number);
    agent_->receive(std::move(message));
  } catch (const Error& error) {
    options_.log(fmt::format("a message from the coordinator is dropped: {}", error.what()));
  }
}

void ControlClient::lost_coordinator(const std::string& why) {
  if (closing_) return;
  const bool was_connected = connected_.exchange(false);
  // The same coordinator again, first: perhaps only the connection was lost.
  if (was_connected)
    client_->connect(current_, longest_search);
  else
    give_up(why);
}

void ControlClient::leave_coordinator(const std::string& why) {
  if (current_ + 1 >= coordinators_.size()) return;
  const int rank = coordinators_[current_].rank;
  send(pack(Moved{}));
  client_->close();  // what was said still goes out
  connected_ = false;
  ++current_;
  if (!why.empty() && rank != options_.rank)
    agent_->sight({.rank = rank, .state = PeerState::stalled, .detail = why});
  client_->connect(current_, longest_search);
}

// Others may speak with a coordinator that gave this rank no answer in time. Told of it they come,
// too; else neither would hear of the other.
void ControlClient::tell_passed_coordinators() {
  std::erase_if(passed_, [this](std::size_t coordinator) {
    return is_gone(agent_->news_of(coordinators_[coordinator].rank).state);
  });
  if (passed_.empty() || is_telling_) return;
  is_telling_ = true;
  const std::size_t coordinator = passed_.front();
  LinkClient::Handlers handlers;
  handlers.connected = [this, coordinator](std::size_t) {
    messenger_->send(pack(Moved{}));
    messenger_->close();
    std::erase(passed_, coordinator);
    is_telling_ = false;
  };
  handlers.lost = [this](const std::string&) { is_telling_ = false; };
  // That it gives no answer has been told; it is tried until it does, or is gone.
  messenger_ = make_client(std::span(&coordinators_[coordinator], 1), {}, std::move(handlers));
  messenger_->connect(0, longest_search);
}

void ControlClient::give_up(const std::string& why) {
  options_.log(fmt::format(
      "the control plane cannot be reached ({}): failures of ranks on other hosts are found by "
      "timeouts only; remedy: check that the hosts can reach each other, and HYMN_INTERFACE",
      why));
  agent_->lost_all_coordinators();
  if (!ever_connected_) return;
  for (int rank = 0; rank < options_.size; ++rank)
    if (rank != options_.rank && find_neighbour(rank) == nullptr)
      agent_->sight({.rank = rank,
                     .state = PeerState::lost,
                     .detail = "it cannot be reached from this host any more"});
  waiting_.clear();
  for (const auto& [number, waits] : std::exchange(flushes_, {})) waits->set_value();
}

void ControlClient::beat() {
  if (closing_) return;
  // First: the next one comes, whatever becomes of this one.
  arm_beat();
  if (connected_) {
    for (Bytes& part : packed(Beat{changed_marks()})) send(std::move(part));
    if (++silent_beats_ > options_.coordinator_silence / options_.beat_every)
      leave_coordinator("its coordinator gives no sign of life");
  }
  if (coordinator_) coordinator_->tick(now());
  // Who stayed would be missed by the next coordinator, to which some have gone.
  if (coordinator_ && coordinator_->is_deserted()) server_->send_to_all(pack(Moved{}));
  tell_passed_coordinators();
  look_for_goodbyes();
  look_for_ends();
  if (on_beat_) on_beat_();
  move();
}

void ControlClient::move() {
  if (closing_ || !on_move_ || !on_move_()) return;
  soon_->expires_after(options_.move_every);
  soon_->async_wait([this](const asio::error_code& error) {
    if (!error) move();
  });
}

// Only those that the coordinator does not know yet; both lists are in the order of the groups.
std::vector<GroupMark> ControlClient::changed_marks() {
  std::vector<GroupMark> marks = marks_();
  std::vector<GroupMark> changed;
  auto sent = sent_marks_.begin();
  for (const GroupMark& mark : marks) {
    while (sent != sent_marks_.end() && sent->uid < mark.uid) ++sent;
    if (sent == sent_marks_.end() || *sent != mark) changed.push_back(mark);
  }
  sent_marks_ = std::move(marks);
  return changed;
}

void ControlClient::arm_beat() {
  timer_->expires_after(options_.beat_every);
  timer_->async_wait([this](const asio::error_code& error) {
    if (!error) beat();
  });
}

const Neighbour* ControlClient::find_neighbour(int rank) const {
  const auto found =
      std::find_if(neighbours_.begin(), neighbours_.end(),
                   [rank](const Neighbour& neighbour) { return neighbour.rank == rank; });
  return found == neighbours_.end() ? nullptr : &*found;
}

void ControlClient::watch() {
  watch_ = std::make_unique<ProcessWatch>(
      io_, [this](int rank, const std::string& how) { neighbour_ended(rank, how); });
  std::set<int> in_sight;
  for (const Neighbour& neighbour : neighbours_) {
    const int rank = neighbour.rank;
    in_sight.insert(rank);
    if (has_ended(neighbour.pid))
      asio::post(io_,
                 [this, rank, how = how_it_ended(neighbour.pid)] { neighbour_ended(rank, how); });
    // To watch a process takes a descriptor, of which there may be too few.
    else if (!neighbour.look || !watch_->watch(rank, neighbour.pid))
      looked_at_[rank] = false;
  }
  agent_->set_in_sight(std::move(in_sight));
}

// What it has said before it left, that it gave a group up, perhaps, may still be on its way: that
// is waited for until the next beat.
void ControlClient::look_for_goodbyes() {
  for (const Neighbour& neighbour : neighbours_)
    if (neighbour.has_left && neighbour.has_left() && !left_.insert(neighbour.rank).second &&
        !is_gone(agent_->news_of(neighbour.rank).state))
      agent_->sight(neighbour.look());
}

// A goodbye may come after the end: it is waited for until the next beat.
void ControlClient::look_for_ends() {
  for (auto& [rank, had_ended] : looked_at_) {
    const int pid = find_neighbour(rank)->pid;
    if (has_ended(pid) && std::exchange(had_ended, true) && !is_gone(agent_->news_of(rank).state))
      neighbour_ended(rank, how_it_ended(pid));
  }
}

bool ControlClient::is_seen_alive(int rank) const {
  const Neighbour* const neighbour = find_neighbour(rank);
  return neighbour != nullptr && !has_ended(neighbour->pid);
}

void ControlClient::neighbour_ended(int rank, const std::string& how) {
  const Neighbour* const neighbour = find_neighbour(rank);
  PeerNews news{.rank = rank, .state = PeerState::dead};
  if (neighbour->look) news = neighbour->look();
  if (news.state == PeerState::left && neighbour->has_left) return;  // the next beats see to it
  // One that exits leaves a note of it.
  if (news.detail.empty())
    news.detail = how.empty() ? "its process was killed, or has crashed: it left no note of an exit"
                              : words_of_end(how);
  agent_->sight(news);
}

}  // namespace hymn::control
