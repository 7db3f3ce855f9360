#include "control/in_process_coordinator.hpp"

#include <utility>
#include <variant>

namespace hymn::control {

InProcessCoordinator::InProcessCoordinator(int ranks)
    : agents_(static_cast<std::size_t>(ranks)),
      coordinator_(ranks, {}, [this](int rank, const Message& message) {
        const std::shared_ptr<Agent>& agent = agents_[static_cast<std::size_t>(rank)];
        if (!agent) return;
        // An agent takes a verdict down, and no more. So all have it before any of them can do
        // something with it that the others hear of on another thread, and sooner.
        if (std::holds_alternative<ShrinkVerdict>(message))
          agent->receive(message);
        else
          outgoing_.push_back({agent, message});
      }) {}

template <class Action>
void InProcessCoordinator::act(Action&& action) {
  {
    std::lock_guard lock(mutex_);
    action();
    if (std::exchange(is_delivering_, true)) return;
  }
  deliver();
}

// One thread at a time, and one message after the other: who has been told of an abort may leave
// because of it, and nobody may hear that first. An agent may answer at once, which comes to act().
void InProcessCoordinator::deliver() {
  std::unique_lock lock(mutex_);
  while (!outgoing_.empty()) {
    const Outgoing one = std::move(outgoing_.front());
    outgoing_.pop_front();
    lock.unlock();
    one.to->receive(one.message);
    lock.lock();
  }
  is_delivering_ = false;
}

void InProcessCoordinator::connect(int rank, std::shared_ptr<Agent> agent) {
  act([&] {
    agents_[static_cast<std::size_t>(rank)] = std::move(agent);
    coordinator_.join(rank, std::chrono::steady_clock::now());
  });
}

void InProcessCoordinator::disconnect(int rank) {
  act([&] {
    agents_[static_cast<std::size_t>(rank)] = nullptr;
    coordinator_.lose(rank, "its thread has ended", std::chrono::steady_clock::now());
  });
}

void InProcessCoordinator::bury(const PeerNews& news) {
  act([&] {
    agents_[static_cast<std::size_t>(news.rank)] = nullptr;
    coordinator_.receive(news.rank, News{news}, std::chrono::steady_clock::now());
  });
}

void InProcessCoordinator::post(int rank, const Message& message) {
  act([&] { coordinator_.receive(rank, message, std::chrono::steady_clock::now()); });
}

}  // namespace hymn::control
