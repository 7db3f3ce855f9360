// ControlClients of a job over the loopback, each with a thread of its own, and what their worlds
// hear.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "control/control_client.hpp"

namespace hymn::test {

/// What one world hears, one line each: "2 is lost", "abort of 7", "dump: why".
class WorldEars : public control::Listener {
 public:
  void peer_changed(const PeerNews& news) override {
    hear(std::to_string(news.rank) + " is " + std::string(to_string(news.state)));
  }
  void group_aborted(const control::AbortGroup& message) override {
    hear("abort of " + std::to_string(message.uid));
  }
  void dump_asked(const control::DumpNow& dump) override { hear("dump: " + dump.reason); }
  ProgressReport tell(const Inquiry& about) override {
    return {.knows_group = true, .entered = about.uid};
  }
  CallProgress tell_calls(std::uint64_t uid, std::uint64_t sequence) override {
    return {.knows_group = true, .calls = {uid, sequence}};
  }
  std::vector<GroupMark> marks() override { return {{7, 2, 1}}; }

  /// Waits until this was heard; false when it was not within 60 s.
  bool hears(const std::string& line) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(60), [&] { return has(line); });
  }
  bool has_heard(const std::string& line) {
    std::lock_guard lock(mutex_);
    return has(line);
  }

 private:
  void hear(std::string line) {
    std::lock_guard lock(mutex_);
    heard_.push_back(std::move(line));
    changed_.notify_all();
  }
  bool has(const std::string& line) const {
    return std::find(heard_.begin(), heard_.end(), line) != heard_.end();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> heard_;
};

/// Holds the thread that passes it, with each beat.
class Gate {
 public:
  void close() { set(true); }
  void open() { set(false); }
  void pass() {
    std::unique_lock lock(mutex_);
    ++passes_;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !closed_; });
  }
  /// Waits until it has been passed so many times more.
  void await(int passes) {
    std::unique_lock lock(mutex_);
    const int until = passes_ + passes;
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(60), [&] { return passes_ >= until; }));
  }

 private:
  void set(bool closed) {
    std::lock_guard lock(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  int passes_ = 0;
};

/// A rank: a control client, its agent and its world. It beats fast, and never takes silence for a
/// failure, unless the test says so.
struct ControlClientRank {
  ControlClientRank(int rank, int size, const std::vector<int>& coordinator_ranks,
                    Duration coordinator_silence = std::chrono::hours(1)) {
    control::ControlClientOptions options;
    options.rank = rank;
    options.size = size;
    const auto coordinator = std::find(coordinator_ranks.begin(), coordinator_ranks.end(), rank);
    if (coordinator != coordinator_ranks.end())
      options.coordinator.index = static_cast<int>(coordinator - coordinator_ranks.begin());
    options.listen = Endpoint(asio::ip::address_v4::loopback(), 0);
    options.beat_every = std::chrono::milliseconds(10);
    options.coordinator_silence = coordinator_silence;
    options.log = [this](std::string_view text) {
      std::lock_guard lock(said_mutex);
      said.emplace_back(text);
      said_more.notify_all();
    };
    options.coordinator.stalled_after = options.coordinator.absent_after = std::chrono::hours(1);
    control_client = std::make_unique<control::ControlClient>(std::move(options));
    control_client->set_on_beat([this] { gate.pass(); });
    agent =
        std::make_shared<control::Agent>(rank, size, ears, [this](const control::Message& message) {
          if (control_client) control_client->post(message);
        });
  }
  ~ControlClientRank() { end(); }
  ControlClientRank(const ControlClientRank&) = delete;
  ControlClientRank& operator=(const ControlClientRank&) = delete;

  void run(const Token& token, const std::vector<control::CoordinatorEndpoint>& coordinators,
           std::vector<control::Neighbour> neighbours = {}) {
    control_client->run(
        token, coordinators, agent, [this] { return ears.marks(); }, std::move(neighbours));
  }
  /// As a process that ends: without a goodbye, unless one was posted.
  void end() {
    gate.open();
    if (control_client) control_client->close();
    control_client.reset();
  }

  /// What it has logged.
  std::vector<std::string> all_said() {
    std::lock_guard lock(said_mutex);
    return said;
  }

  /// Waits until it has logged this; false when it has not within 60 s.
  bool says(const std::string& words) {
    std::unique_lock lock(said_mutex);
    return said_more.wait_for(lock, std::chrono::seconds(60), [&] {
      return std::ranges::any_of(
          said, [&](const std::string& text) { return text.find(words) != std::string::npos; });
    });
  }

  WorldEars ears;
  Gate gate;
  std::condition_variable said_more;
  std::mutex said_mutex;
  std::vector<std::string> said;
  std::shared_ptr<control::Agent> agent;
  std::unique_ptr<control::ControlClient> control_client;
};

/// All ranks of a job.
class ControlClientScene {
 public:
  ControlClientScene(int size, const std::vector<int>& coordinator_ranks,
                     Duration coordinator_silence = std::chrono::hours(1))
      : ControlClientScene(Unrun(), size, coordinator_ranks, coordinator_silence) {
    for (auto& rank : ranks_) rank->run(token_, coordinators_);
  }
  /// That rank comes when the first coordinator, with whom the others speak, is held, and goes on
  /// to the next one: both are there by then, whoever loses its core.
  static ControlClientScene with_unanswered(int unanswered, int size,
                                            const std::vector<int>& coordinator_ranks) {
    ControlClientScene scene(Unrun(), size, coordinator_ranks, std::chrono::hours(1));
    const int first = coordinator_ranks.front();
    for (int rank = 0; rank < size; ++rank)
      if (rank != unanswered) scene.at(rank).run(scene.token_, scene.coordinators_);
    scene.abort(first, 1);
    for (int rank = 0; rank < size; ++rank) {
      if (rank == unanswered || rank == first) continue;
      EXPECT_TRUE(scene.ears(rank).hears("abort of 1")) << "rank " << rank << " has not come";
    }
    scene.at(first).gate.close();
    scene.at(first).gate.await(1);
    scene.at(unanswered).run(scene.token_, scene.coordinators_);
    EXPECT_TRUE(scene.at(unanswered).says("no answer in time"));
    scene.at(first).gate.open();
    return scene;
  }
  ControlClientRank& at(int rank) { return *ranks_.at(static_cast<std::size_t>(rank)); }
  WorldEars& ears(int rank) { return at(rank).ears; }
  void end(int rank) { at(rank).end(); }
  void abort(int rank, std::uint64_t uid) { at(rank).agent->post(control::AbortGroup{uid, "why"}); }

  /// An abort of a group of this number, by `from`, is heard by those ranks.
  void expect_abort(int from, std::uint64_t uid, std::initializer_list<int> by) {
    abort(from, uid);
    for (const int rank : by)
      EXPECT_TRUE(ears(rank).hears("abort of " + std::to_string(uid)))
          << "rank " << rank << " does not hear of rank " << from << "'s abort";
  }

 private:
  struct Unrun {};
  ControlClientScene(Unrun, int size, const std::vector<int>& coordinator_ranks,
                     Duration coordinator_silence)
      : token_(Token::random()) {
    for (int rank = 0; rank < size; ++rank)
      ranks_.push_back(
          std::make_unique<ControlClientRank>(rank, size, coordinator_ranks, coordinator_silence));
    for (const int rank : coordinator_ranks)
      coordinators_.push_back({rank, at(rank).control_client->open_coordinator(token_)});
  }

  Token token_;
  std::vector<control::CoordinatorEndpoint> coordinators_;
  std::vector<std::unique_ptr<ControlClientRank>> ranks_;
};

}  // namespace hymn::test
