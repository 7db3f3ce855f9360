#include "control/station.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <future>

#include "base/helper_thread.hpp"

namespace hymn::control {
namespace {

// How long the desks are tried, all of them, before a rank gives up.
constexpr Duration longest_search = std::chrono::seconds(5);
// What is posted while there is no desk. What is too much was said for nobody.
constexpr std::size_t most_waiting = 1000;

TimePoint now() { return std::chrono::steady_clock::now(); }

}  // namespace

Station::Station(StationOptions options)
    : options_(std::move(options)), io_(1), stay_(asio::make_work_guard(io_)) {
  options_.desk.index = std::max(options_.desk_index, 0);
  if (!options_.log) options_.log = [](std::string_view) {};
}

Station::~Station() { close(); }

Endpoint Station::open_desk(const Token& token) {
  desk_ = std::make_unique<Desk>(
      options_.size, options_.desk,
      [this](int rank, const Message& message) { server_->send(rank, pack(message)); });
  LinkServer::Handlers handlers;
  handlers.joined = [this](int rank) { desk_->join(rank, now()); };
  handlers.message = [this](int rank, std::span<const std::byte> bytes) {
    try {
      desk_->receive(rank, unpack(bytes), now());
    } catch (const Error& error) {
      options_.log(fmt::format("a message of rank {} is dropped: {}", rank, error.what()));
    }
  };
  handlers.lost = [this](int rank, const std::string& why) { desk_->lose(rank, why, now()); };
  server_ = std::make_unique<LinkServer>(io_,
                                         LinkServerOptions{.listen = options_.listen,
                                                           .token = token,
                                                           .size = options_.size,
                                                           .service = "control",
                                                           .log = options_.log},
                                         std::move(handlers));
  return server_->endpoint();
}

void Station::run(const Token& token, std::vector<Endpoint> desks, std::shared_ptr<Agent> agent,
                  std::function<std::vector<GroupMark>()> marks,
                  std::vector<Neighbour> neighbours) {
  agent_ = std::move(agent);
  marks_ = std::move(marks);
  desks_ = desks.size();
  neighbours_ = std::move(neighbours);
  LinkClient::Handlers handlers;
  handlers.connected = [this](std::size_t desk) { connected(desk); };
  handlers.message = [this](std::span<const std::byte> bytes) { received(bytes); };
  handlers.lost = [this](const std::string& why) { lost_desk(why); };
  client_ = std::make_unique<LinkClient>(io_,
                                         LinkClientOptions{.rank = options_.rank,
                                                           .token = token,
                                                           .candidates = std::move(desks),
                                                           .service = "control",
                                                           .log = options_.log},
                                         std::move(handlers));
  watch();
  timer_ = std::make_unique<asio::steady_timer>(io_);
  asio::post(io_, [this] {
    if (desks_ > 0) client_->connect(0, longest_search);
    beat();
  });
  thread_ = std::thread([this] {
    become_helper_thread("hymn-control");
    io_.run();
  });
}

void Station::post(Message message) {
  asio::post(io_, [this, message = std::move(message)] { send(message); });
}

void Station::flush() {
  if (!thread_.joinable() || std::this_thread::get_id() == thread_.get_id()) return;
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  // Who leaves at once may not have reached any desk.
  while (desks_ > 0 && !connected_ && std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  auto done = std::make_shared<std::promise<void>>();
  auto future = done->get_future();
  // Twice round the loop, so that what was queued has been written, too.
  asio::post(io_, [this, done] { asio::post(io_, [done] { done->set_value(); }); });
  future.wait_until(until);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Station::close() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    closing_ = true;
    timer_.reset();
    watch_.reset();
    client_->close();
    if (server_) server_->close();
    stay_.reset();
  });
  thread_.join();
}

void Station::send(const Message& message) {
  if (connected_)
    client_->send(pack(message));
  else if (waiting_.size() < most_waiting)
    waiting_.push_back(message);
}

void Station::connected(std::size_t desk) {
  const bool first = !std::exchange(ever_connected_, true);
  connected_ = true;
  silent_beats_ = 0;
  sent_marks_.clear();
  // Those before it could not be reached any more.
  for (std::size_t passed = current_; passed < desk; ++passed) {
    const int rank = options_.desk_ranks[passed];
    if (find_neighbour(rank) == nullptr)
      agent_->sight({.rank = rank,
                     .state = first ? PeerState::stalled : PeerState::lost,
                     .detail = "the connection to it is lost"});
  }
  current_ = desk;
  for (const Message& message : std::exchange(waiting_, {})) send(message);
  agent_->reached_desk(options_.desk_ranks[desk]);
}

void Station::received(std::span<const std::byte> bytes) {
  silent_beats_ = 0;
  try {
    Message message = unpack(bytes);
    if (std::holds_alternative<Moved>(message)) return leave_desk("");
    agent_->receive(std::move(message));
  } catch (const Error& error) {
    options_.log(fmt::format("a message of the desk is dropped: {}", error.what()));
  }
}

void Station::lost_desk(const std::string& why) {
  if (closing_) return;
  const bool was_connected = connected_.exchange(false);
  // The same desk again, first: perhaps only the connection was lost.
  if (was_connected)
    client_->connect(current_, longest_search);
  else
    give_up(why);
}

void Station::leave_desk(const std::string& why) {
  if (current_ + 1 >= desks_) return;
  const int rank = options_.desk_ranks[current_];
  send(Moved{});
  client_->close();  // what was said still goes out
  connected_ = false;
  ++current_;
  if (!why.empty() && rank != options_.rank)
    agent_->sight({.rank = rank, .state = PeerState::stalled, .detail = why});
  client_->connect(current_, longest_search);
}

void Station::give_up(const std::string& why) {
  options_.log(fmt::format(
      "the control plane cannot be reached ({}): failures of ranks on other hosts are found by "
      "limits only; remedy: see that the hosts can reach each other, and HYMN_INTERFACE",
      why));
  if (!ever_connected_) return;
  for (int rank = 0; rank < options_.size; ++rank)
    if (rank != options_.rank && find_neighbour(rank) == nullptr)
      agent_->sight({.rank = rank,
                     .state = PeerState::lost,
                     .detail = "it cannot be reached from this host any more"});
  waiting_.clear();
}

void Station::beat() {
  if (closing_) return;
  if (connected_) {
    Beat beat;
    for (const GroupMark& mark : marks_()) {
      GroupMark& sent = sent_marks_[mark.uid];
      if (sent == mark) continue;
      sent = mark;
      beat.marks.push_back(mark);
    }
    send(beat);
    if (++silent_beats_ > options_.desk_silence / options_.beat_every)
      leave_desk("its desk gives no sign of life");
  }
  if (desk_) desk_->tick(now());
  // Who stayed would be missed by the next desk, to which some have gone.
  if (desk_ && desk_->is_deserted()) server_->send_to_all(pack(Moved{}));
  look_for_goodbyes();
  if (on_beat_) on_beat_();
  timer_->expires_after(options_.beat_every);
  timer_->async_wait([this](const asio::error_code& error) {
    if (!error) beat();
  });
}

const Neighbour* Station::find_neighbour(int rank) const {
  const auto found =
      std::find_if(neighbours_.begin(), neighbours_.end(),
                   [rank](const Neighbour& neighbour) { return neighbour.rank == rank; });
  return found == neighbours_.end() ? nullptr : &*found;
}

void Station::watch() {
  watch_ = std::make_unique<ProcessWatch>(io_, [this](int rank) { neighbour_ended(rank); });
  std::set<int> in_sight;
  for (const Neighbour& neighbour : neighbours_) {
    const int rank = neighbour.rank;
    const bool is_watched = watch_->watch(rank, neighbour.pid);
    const bool is_over = !is_watched && has_ended(neighbour.pid);
    if (is_over) asio::post(io_, [this, rank] { neighbour_ended(rank); });
    if (is_watched || is_over) in_sight.insert(rank);
  }
  // Whoever cannot be watched is heard of like those on other hosts.
  std::erase_if(neighbours_,
                [&](const Neighbour& neighbour) { return !in_sight.contains(neighbour.rank); });
  agent_->set_in_sight(std::move(in_sight));
}

void Station::look_for_goodbyes() {
  for (const Neighbour& neighbour : neighbours_)
    if (neighbour.has_left && neighbour.has_left() &&
        !is_gone(agent_->news_of(neighbour.rank).state))
      agent_->sight(neighbour.look());
}

void Station::neighbour_ended(int rank) {
  const Neighbour* const neighbour = find_neighbour(rank);
  PeerNews news{.rank = rank, .state = PeerState::dead};
  if (neighbour->look) news = neighbour->look();
  if (news.detail.empty()) {
    const std::string how = how_it_ended(neighbour->pid);
    news.detail = how.empty() ? "its process has ended without a goodbye"
                              : fmt::format("its process was {}", how);
  }
  agent_->sight(news);
}

}  // namespace hymn::control
