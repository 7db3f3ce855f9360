// A rank's own side of the control plane, with a coordinator that is made up by the test.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "control/agent.hpp"
#include "tests/unit/fake_clock.hpp"

namespace hymn::test {

/// What a world hears, one line each.
class Ears : public control::Listener {
 public:
  void peer_changed(const PeerNews& news) override {
    heard.push_back(std::to_string(news.rank) + " is " + std::string(to_string(news.state)));
  }
  void group_aborted(const control::AbortGroup& message) override {
    heard.push_back("abort of " + std::to_string(message.uid) + ": " + message.reason);
  }
  void dump_asked(const control::DumpNow& message) override {
    heard.push_back("dump: " + message.reason);
  }
  ProgressReport tell(const Inquiry& about) override {
    return {.rank = 99, .entered = about.uid + 1, .doing = "me"};
  }
  CallProgress tell_calls(std::uint64_t uid, std::uint64_t sequence) override {
    return {.rank = 99, .knows_group = true, .calls = {uid, sequence}};
  }
  std::vector<GroupMark> marks() override { return {}; }

  std::vector<std::string> take() { return std::exchange(heard, {}); }
  std::vector<std::string> heard;
};

/// The agent of rank 1 of 4.
class AgentScene : public ::testing::Test {
 protected:
  void hear(int rank, PeerState state, std::string detail = "", std::vector<GroupMark> marks = {}) {
    agent.receive(control::News{{rank, state, std::move(detail), std::move(marks)}});
  }
  PeerState state_of(int rank) const { return agent.news_of(rank).state; }
  std::vector<control::Message> take_sent() {
    std::lock_guard lock(mutex);
    return std::exchange(sent, {});
  }
  Patience patience(Deadline deadline = Deadline::never()) const {
    return {.deadline = deadline, .clock = &clock, .purpose = "a test"};
  }
  template <class Kind>
  std::vector<Kind> take_sent_of() {
    std::vector<Kind> found;
    for (const control::Message& message : take_sent())
      if (const Kind* kind = std::get_if<Kind>(&message)) found.push_back(*kind);
    return found;
  }

  Ears ears;
  std::mutex mutex;
  std::vector<control::Message> sent;
  std::function<void(const control::Message&)> coordinator = [](const control::Message&) {};
  control::Agent agent{1, 4, ears, [this](const control::Message& message) {
                         {
                           std::lock_guard lock(mutex);
                           sent.push_back(message);
                         }
                         coordinator(message);
                       }};
  FakeClock clock;
};

}  // namespace hymn::test
