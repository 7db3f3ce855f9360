// The control plane of ranks that are threads.
#pragma once

#include "control/switchboard.hpp"
#include "runtime/control_plane.hpp"

namespace hymn {

class ThreadControl final : public ControlPlane {
 public:
  ThreadControl(std::shared_ptr<control::Switchboard> switchboard, int rank)
      : switchboard_(std::move(switchboard)), rank_(rank) {}
  void open(std::shared_ptr<control::Agent> agent, std::span<const Bytes>,
            Calls) override {
    switchboard_->connect(rank_, std::move(agent));
  }
  void post(const control::Message& message) override { switchboard_->post(rank_, message); }
  void close() override { switchboard_->disconnect(rank_); }

 private:
  std::shared_ptr<control::Switchboard> switchboard_;
  int rank_;
};

}  // namespace hymn
