// The control plane of ranks that are threads.
#pragma once

#include "control/in_process_coordinator.hpp"
#include "runtime/rank/control_plane.hpp"
#include "runtime/world/pulse.hpp"

namespace hymn {

/// Where ranks that are threads of one process find each other's records, and what they keep for
/// each other. Each puts its own record before the control plane begins.
class RecordTable {
 public:
  explicit RecordTable(int ranks) : records_(static_cast<std::size_t>(ranks)) {}
  void put(int rank, SharedRecord record) {
    const std::lock_guard lock(mutex_);
    records_[static_cast<std::size_t>(rank)] = std::move(record);
  }
  const std::shared_ptr<Store>& store() const { return store_; }
  std::optional<RecorderView> view_of(int rank) const {
    const std::lock_guard lock(mutex_);
    const SharedRecord& record = records_[static_cast<std::size_t>(rank)];
    if (!record.begin) return std::nullopt;
    return RecorderView({record.begin.get(), record.bytes});
  }

 private:
  mutable std::mutex mutex_;
  std::vector<SharedRecord> records_;
  const std::shared_ptr<Store> store_ = std::make_shared<HashStore>();
};

class ThreadControl final : public ControlPlane {
 public:
  ThreadControl(std::shared_ptr<control::InProcessCoordinator> in_process_coordinator,
                std::shared_ptr<Pulse> pulse, std::shared_ptr<RecordTable> records, int rank)
      : in_process_coordinator_(std::move(in_process_coordinator)),
        pulse_(std::move(pulse)),
        records_(std::move(records)),
        rank_(rank) {}
  Bytes offer(const ControlSite& site) override {
    records_->put(rank_, site.shared_record);
    return {};
  }
  void open(std::shared_ptr<control::Agent> agent, std::span<const Bytes>, Calls calls) override {
    in_process_coordinator_->connect(rank_, std::move(agent));
    pulse_->add(rank_, std::move(calls.beat));
  }
  void post(const control::Message& message) override {
    in_process_coordinator_->post(rank_, message);
  }
  std::optional<RecorderView> view_of(int rank) const override { return records_->view_of(rank); }
  std::shared_ptr<Store> shared_store() override { return records_->store(); }
  void close() override {
    pulse_->remove(rank_);
    in_process_coordinator_->disconnect(rank_);
  }

 private:
  std::shared_ptr<control::InProcessCoordinator> in_process_coordinator_;
  std::shared_ptr<Pulse> pulse_;
  std::shared_ptr<RecordTable> records_;
  int rank_;
};

}  // namespace hymn
