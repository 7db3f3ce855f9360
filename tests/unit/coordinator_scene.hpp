// A coordinator of the control plane with made-up times, and all that it says.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "control/coordinator.hpp"

namespace hymn::test {

using namespace control;
using namespace std::chrono_literals;

class CoordinatorTest : public ::testing::Test {
 protected:
  struct Letter {
    int to;
    Message message;
  };

  static constexpr int size = 4;

  void open(CoordinatorOptions options = {}) {
    coordinator = std::make_unique<Coordinator>(
        size, options,
        [this](int rank, const Message& message) { letters.push_back({rank, message}); });
  }
  void all_join() {
    for (int rank = 0; rank < size; ++rank) coordinator->join(rank, now);
    letters.clear();
  }
  void SetUp() override { open(); }

  void say(int rank, Message message) { coordinator->receive(rank, std::move(message), now); }
  void lose(int rank, const std::string& why = "the other end has closed it") {
    coordinator->lose(rank, why, now);
  }
  void pass(Duration time) {
    now += time;
    coordinator->tick(now);
  }
  /// Time goes by, in which these ranks show that they live.
  void pass_alive(Duration time, std::initializer_list<int> ranks) {
    for (Duration step = 0s; step < time; step += 500ms) {
      now += 500ms;
      for (const int rank : ranks) say(rank, Beat{});
      coordinator->tick(now);
    }
  }

  /// What was said since the last time that this was asked, of one kind.
  template <class Kind>
  std::vector<std::pair<int, Kind>> take() {
    std::vector<std::pair<int, Kind>> found;
    for (const Letter& letter : std::exchange(letters, {}))
      if (const Kind* kind = std::get_if<Kind>(&letter.message))
        found.emplace_back(letter.to, *kind);
    return found;
  }
  /// "to 2: 1 is lost", sorted as they came.
  std::vector<std::string> news() {
    std::vector<std::string> told;
    for (const auto& [to, message] : take<News>())
      told.push_back("to " + std::to_string(to) + ": " + std::to_string(message.news.rank) +
                     " is " + std::string(to_string(message.news.state)));
    return told;
  }

  std::vector<Letter> letters;
  std::unique_ptr<Coordinator> coordinator;
  TimePoint now = TimePoint() + 1h;
};

}  // namespace hymn::test
