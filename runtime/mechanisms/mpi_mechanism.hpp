// MPI as a mechanism: gives each group a communicator of its own, and the algorithms over it.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "runtime/mechanisms/mechanism.hpp"
#include "runtime/mechanisms/mpi_exchange.hpp"

namespace hymn {

class MpiMechanism final : public Mechanism {
 public:
  MpiMechanism(std::shared_ptr<MpiExchange> exchange, std::shared_ptr<MpiGate> gate,
               std::size_t chunk_limit);

  Bytes offer(const Membership& membership, const GroupOptions& options) override;
  void open(NewGroup& group, std::span<const Bytes> offers,
            std::span<const Bytes> answers) override;
  void close(const Membership& membership, bool clean) override;
  bool has_gate() const override { return true; }
  bool may_drive() const override { return gate_->may_enter(); }
  void require_drive() const override { const MpiGate::Entry entry(*gate_); }
  bool calls_may_overlap() const override { return gate_->level() > ThreadLevel::funneled; }
  bool serves_own_threads() const override { return gate_->level() == ThreadLevel::multiple; }
  bool may_block() const override { return gate_->may_block(); }
  bool ends_together() const override { return true; }
  void shut_down(WorldEnd end) override;

 private:
  /// Freeing a communicator is collective, and groups end in any order on each rank: so one that is
  /// no longer used is parked until the world ends, or a group of the same ranks takes it.
  struct Parked {
    std::uint64_t id = 0;  ///< uid of the group it was made for, the same on all its ranks
    MPI_Comm communicator = MPI_COMM_NULL;
  };
  MPI_Comm make_communicator(const NewGroup& group);
  /// None where some member can make no more.
  std::optional<Parked> take_or_make(const NewGroup& group, std::span<const Bytes> offers);

  std::shared_ptr<MpiExchange> exchange_;
  std::shared_ptr<MpiGate> gate_;
  std::size_t chunk_limit_;
  int tag_bound_ = 32767;
  std::mutex mutex_;
  bool stuck_ = false;  ///< MPI is still making one, for which a member is missing
  std::map<std::vector<int>, std::vector<Parked>> parked_;
  std::map<std::uint64_t, Parked> in_use_;  ///< by the uid of the group
};

}  // namespace hymn
