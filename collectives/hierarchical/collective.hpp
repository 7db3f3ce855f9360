// One collective across hosts as an operation.
#pragma once

#include "collectives/hierarchical/hierarchy.hpp"
#include "collectives/hierarchical/piece_plan.hpp"
#include "collectives/reduce/reducer.hpp"
#include "collectives/shm_base/shm_operation.hpp"

namespace hymn {

/// Carries a call out piece by piece. Every member moves each of its pieces through
///
///   staged -> folded -> gathered -> spread -> done
///
/// in order, as far as each of them can go at the time; a step waits for nothing. Only the leader
/// of a piece has something to do between staged and spread, so several pieces are in each stage
/// at once: one is on its way between hosts while another is folded and a third is copied.
class HierarchicalCollective final : public ShmOperation {
 public:
  HierarchicalCollective(const std::shared_ptr<Hierarchy>& hierarchy, const Call& call);

  /// A leader waits for messages, too, which cannot wake it.
  bool can_park() const override { return channel().rank() >= hierarchy_.map().leaders(); }
  std::unique_ptr<AbandonedOperation> abandon(const std::string& reason) noexcept override;

 private:
  static constexpr int everybody = -1;
  static constexpr int nobody = -2;

  void begin() override;
  bool advance() override;
  bool open();

  // What becomes of the pieces, as far as it can now.
  void stage_pieces();
  void fold_pieces();
  void gather_pieces();
  void spread_pieces();
  void take_pieces();

  // Of one piece, by its number in this call.
  void show(std::size_t piece);
  void stage(std::size_t piece);
  void expect_messages(std::size_t piece);
  bool all_have_staged(std::size_t piece);
  void fold_here(std::size_t piece);
  void send_gather(std::size_t piece);
  void fold_hosts(std::size_t piece);
  void send_spread(std::size_t piece);
  bool has_result(std::size_t piece) const;
  void take(std::size_t piece);
  void take_prefix(std::size_t piece);
  void list_inputs(std::size_t piece, std::size_t user, std::size_t packed);
  const double* list_factors(std::size_t piece);

  bool leads(std::size_t piece) const {
    return hierarchy_.is_leader(channel().rank(), base_ + piece);
  }
  bool is_reduction() const { return reducer_.combine != nullptr; }
  bool is_prefix() const { return hymn::is_prefix(request_.type); }
  bool contributes(int member) const { return source_ == everybody || source_ == member; }
  /// Who leads a piece reads its own input where it is, unless neighbours want it, too.
  bool must_stage(std::size_t piece) const {
    return contributes(channel().rank()) && (source_ != everybody || !leads(piece) || is_prefix());
  }
  bool root_is_here() const { return root_host_ == hierarchy_.map().my_host(); }
  /// In whose memory the result lies.
  int maker(std::size_t piece) const {
    return source_ >= 0 ? source_ : hierarchy_.leader_of(base_ + piece);
  }
  /// Where the result lies that members on this host copy, and that is sent on; of a prefix
  /// reduction what the hosts before this one come to, as accumulators.
  std::byte* result(std::size_t piece) const;
  /// UsageError when the label of a member that has shown the piece is for another call.
  void require_same_call(int member, std::size_t piece) const;
  Hierarchy::Flags& my_flags() const { return hierarchy_.flags(channel().rank()); }
  MessageTag tag(unsigned phase) const { return MessageTag::of_collective(order_, phase, label()); }

  /// Calls visit(user, packed, count) for each run of a piece that lies in one on both sides: in
  /// the user's buffer, and in a slot; in elements.
  template <class Visit>
  void for_each_run(bool blocks, std::size_t piece, Visit&& visit) const;

  const std::shared_ptr<Hierarchy>& shared_;
  Hierarchy& hierarchy_;
  const Request& request_;
  std::uint64_t order_;
  int root_;                // group rank, or -1
  int root_host_ = -1;      // of a rooted collective
  int source_ = everybody;  // whose input it is, of the members here
  bool wants_;              // this member the result
  bool began_ = false;
  bool has_plan_ = false;
  Reducer reducer_;                // of reductions
  std::size_t element_bytes_ = 1;  // of the user's buffers
  PiecePlan plan_;
  Hierarchy::Slots slots_;
  std::uint64_t base_ = 0;  // number of the first piece
  // Pieces that have gone through each stage.
  std::size_t staged_ = 0;
  std::size_t folded_ = 0;
  std::size_t gathered_ = 0;
  std::size_t spread_ = 0;
  std::size_t done_ = 0;
};

}  // namespace hymn
