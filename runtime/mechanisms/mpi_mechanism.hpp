// MPI as a mechanism: gives each group a communicator of its own, and the algorithms over it.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "control/coordinator.hpp"
#include "runtime/mechanisms/mechanism.hpp"
#include "runtime/mechanisms/mpi_exchange.hpp"
#include "runtime/mechanisms/parked_communicators.hpp"

namespace hymn {

class MpiMechanism final : public Mechanism {
 public:
  MpiMechanism(std::shared_ptr<MpiExchange> exchange, std::shared_ptr<MpiGate> gate,
               std::size_t chunk_limit);

  Bytes offer(const Membership& membership, const GroupOptions& options) override;
  Bytes answer(const Membership& membership, std::span<const Word> offers,
               Duration patience) override;
  void open(NewGroup& group, std::span<const Word> offers, std::span<const Word> answers) override;
  void close(const Membership& membership, bool clean) override;
  bool has_gate() const override { return true; }
  bool may_drive() const override { return gate_->may_enter(); }
  void require_drive() const override { const MpiGate::Entry entry(*gate_); }
  bool calls_may_overlap() const override { return gate_->level() > ThreadLevel::funneled; }
  bool serves_own_threads() const override { return gate_->level() == ThreadLevel::multiple; }
  bool may_block() const override { return gate_->may_block(); }
  std::string description() const override;
  bool ends_together() const override { return true; }
  std::uint64_t left_over() override;
  std::uint64_t dropped_messages() const override { return dropped_.load(); }
  void shut_down(WorldEnd end) override;

 private:
  using Parked = ParkedCommunicators::Parked;
  /// What all members have said, and so do.
  struct Plan {
    std::optional<ParkedCommunicators::Choice> chosen{};  ///< a communicator that was parked
    bool makes = false;                                   ///< a new one
    /// What each member has told of those that are parked.
    std::vector<std::vector<std::uint64_t>> parked{};
  };
  static Plan plan_of(std::span<const Word> offers);
  std::shared_ptr<MpiChannel> channel_of(const NewGroup& group, MPI_Comm communicator) const;
  /// Of one that was parked, without the messages that are left in it.
  MPI_Comm take(const NewGroup& group, const ParkedCommunicators::Choice& chosen,
                std::span<const Word> answers);
  MPI_Comm make_communicator(const NewGroup& group);
  /// The tag by which MPI knows what is done to make it.
  static int tag_of(std::uint64_t uid) { return 1 + static_cast<int>(spread(uid) % 32766); }
  /// Numbers that ranks draw for themselves lie at regular distances from each other.
  static std::uint64_t spread(std::uint64_t uid) {
    return uid < control::first_local_uid ? uid : uid * 0x9e3779b97f4a7c15 >> 32;
  }

  std::shared_ptr<MpiExchange> exchange_;
  std::shared_ptr<MpiGate> gate_;
  std::size_t chunk_limit_;
  int tag_bound_ = 32767;
  std::mutex mutex_;
  bool stuck_ = false;  ///< MPI is still making one, for which a member is missing
  /// Freeing a communicator is collective, and groups end in any order on each rank: so one that is
  /// no longer used is parked until the world ends, or a group of the same ranks takes it.
  ParkedCommunicators parked_;
  std::set<std::uint64_t> making_;          ///< uids of groups that are being made
  std::map<std::uint64_t, Parked> in_use_;  ///< by the uid of the group
  std::atomic<std::uint64_t> dropped_{0};
};

}  // namespace hymn
