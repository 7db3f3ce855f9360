// The control plane of ranks that are threads.
#pragma once

#include "control/switchboard.hpp"
#include "runtime/control_plane.hpp"
#include "runtime/pulse.hpp"

namespace hymn {

class ThreadControl final : public ControlPlane {
 public:
  ThreadControl(std::shared_ptr<control::Switchboard> switchboard, std::shared_ptr<Pulse> pulse,
                int rank)
      : switchboard_(std::move(switchboard)), pulse_(std::move(pulse)), rank_(rank) {}
  void open(std::shared_ptr<control::Agent> agent, std::span<const Bytes>, Calls calls) override {
    switchboard_->connect(rank_, std::move(agent));
    pulse_->add(rank_, std::move(calls.beat));
  }
  void post(const control::Message& message) override { switchboard_->post(rank_, message); }
  void close() override {
    pulse_->remove(rank_);
    switchboard_->disconnect(rank_);
  }

 private:
  std::shared_ptr<control::Switchboard> switchboard_;
  std::shared_ptr<Pulse> pulse_;
  int rank_;
};

}  // namespace hymn
