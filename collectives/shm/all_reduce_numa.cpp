// all_reduce of members on several NUMA nodes: what crosses between nodes is one partial result of
// each node, and one copy of the result.
//
// A piece has a leader on each node, who folds what the members there show, and one of these leads
// the piece: it folds the nodes' partial results, in the order of the nodes. The other leaders copy
// the result to memory of their own node, where the members take it.

#include <cstring>

#include "collectives/hierarchical/fold.hpp"
#include "collectives/hierarchical/hierarchy.hpp"
#include "collectives/hierarchical/piece_plan.hpp"
#include "collectives/shm/shm_algorithms.hpp"
#include "collectives/shm/shm_models.hpp"
#include "collectives/shm_base/shm_operation.hpp"
#include "collectives/shm_base/shm_reduction.hpp"

namespace hymn {
namespace {

/// Each piece goes through staged -> folded -> joined -> done, in order. A leader stages nothing:
/// its slot for staging takes the result.
class NumaOperation final : public ShmOperation {
 public:
  NumaOperation(Hierarchy& nodes, const Call& call)
      : ShmOperation(nodes.channel(), call),
        nodes_(nodes),
        map_(nodes.map()),
        request_(*call.request),
        sequence_(call.sequence),
        reducer_(reducer_for(request_.inputs.dtype(), request_.op)) {}

 private:
  void begin() override {
    base_ = nodes_.next_piece;
    if (open()) stage_pieces();
  }

  bool open() {
    const std::size_t unit = std::max(reducer_.element_bytes, reducer_.accumulator_bytes);
    if (PiecePlan::bytes_of(request_, map_, unit) > Hierarchy::small_bytes) {
      if (!nodes_.agree_on_slots(sequence_)) return false;
      slots_ = nodes_.large_slots();
    }
    plan_ = PiecePlan::make(request_, map_, -1, unit, slots_.bytes);
    has_plan_ = true;
    return true;
  }

  bool advance() override {
    if (!has_plan_ && !open()) return false;
    stage_pieces();
    for (; folded_ < staged_ && (!leads(folded_) || fold(folded_)); ++folded_) {
    }
    for (; joined_ < folded_ && (!leads(joined_) || join(joined_)); ++joined_) {
    }
    take_pieces();
    if (done_ < plan_.pieces) return false;
    nodes_.next_piece = base_ + plan_.pieces;
    return true;
  }

  void stage_pieces() {
    for (; staged_ < plan_.pieces && nodes_.may_use_slot(base_ + staged_); ++staged_) {
      if (leads(staged_)) continue;
      const std::uint64_t number = base_ + staged_;
      const Slice run = plan_.elements(staged_);
      std::memcpy(nodes_.staged(slots_, channel().rank(), number), input(staged_),
                  run.count * reducer_.element_bytes);
      show_label(number);
      channel().publish(mine().staged, number + 1);
    }
  }

  /// On this node; false: not all have staged theirs.
  bool fold(std::size_t piece) {
    const std::uint64_t number = base_ + piece;
    const int node = map_.my_host();
    for (int i = 0; i < map_.members_on(node); ++i) {
      const int member = map_.leader(node, i);
      const auto index = static_cast<std::size_t>(i);
      nodes_.inputs[index] = input(piece);
      nodes_.factors[index] = request_.op.factor();
      if (member == channel().rank()) continue;
      const Hierarchy::Flags& flags = nodes_.flags(member);
      if (flags.staged.load(std::memory_order_acquire) <= number) return false;
      require_label(member, number);
      nodes_.inputs[index] = nodes_.staged(slots_, member, number);
      nodes_.factors[index] = flags.labels[number % Hierarchy::slots].factor;
    }
    const bool scaled = request_.op.kind() == ReduceKind::premul_sum;
    fold_inputs(reducer_, nodes_.inputs.data(), map_.members_on(node),
                nodes_.laid_out(slots_, channel().rank(), number), plan_.elements(piece).count,
                scaled ? nodes_.factors.data() : nullptr);
    show_label(number);
    channel().publish(mine().folded, number + 1);
    return true;
  }

  /// The nodes' partial results; false: what it needs is not there yet.
  bool join(std::size_t piece) {
    const std::uint64_t number = base_ + piece;
    const std::size_t count = plan_.elements(piece).count;
    const int me = channel().rank();
    const int first = first_leader(number);
    std::byte* const result = nodes_.staged(slots_, me, number);
    if (me != first) {
      if (nodes_.flags(first).ready.load(std::memory_order_acquire) <= number) return false;
      require_label(first, number);
      std::memcpy(result, nodes_.staged(slots_, first, number), count * reducer_.element_bytes);
    } else {
      for (int node = 0; node < map_.hosts(); ++node) {
        const int leader = nodes_.remote_leader(node, number);
        if (nodes_.flags(leader).folded.load(std::memory_order_acquire) <= number) return false;
        require_label(leader, number);
        nodes_.inputs[static_cast<std::size_t>(node)] = nodes_.laid_out(slots_, leader, number);
      }
      fold_accumulators(reducer_, nodes_.inputs.data(), map_.hosts(),
                        nodes_.laid_out(slots_, me, number), result, count, channel().size());
    }
    channel().publish(mine().ready, number + 1);
    return true;
  }

  void take_pieces() {
    const std::size_t before = done_;
    for (; done_ < joined_; ++done_) {
      const std::uint64_t number = base_ + done_;
      const int leader = nodes_.remote_leader(map_.my_host(), number);
      if (nodes_.flags(leader).ready.load(std::memory_order_acquire) <= number) break;
      require_label(leader, number);
      const Slice run = plan_.elements(done_);
      std::memcpy(static_cast<std::byte*>(request_.outputs.flat().data) +
                      run.offset * reducer_.element_bytes,
                  nodes_.staged(slots_, leader, number), run.count * reducer_.element_bytes);
    }
    if (done_ != before) channel().publish(mine().done, base_ + done_);
  }

  /// With what is to be published of this piece.
  void show_label(std::uint64_t number) {
    mine().labels[number % Hierarchy::slots] = {label(), request_.op.factor()};
  }
  /// Of one who has published something of this piece.
  void require_label(int member, std::uint64_t number) const {
    if (nodes_.flags(member).labels[number % Hierarchy::slots].call != label()) [[unlikely]]
      throw_for(member);
  }

  bool leads(std::size_t piece) const {
    return nodes_.remote_leader(map_.my_host(), base_ + piece) == channel().rank();
  }
  /// Who leads the piece on its node, and among the nodes.
  int first_leader(std::uint64_t number) const {
    const auto turn = number / static_cast<std::uint64_t>(map_.leaders());
    const auto node = static_cast<int>(turn % static_cast<std::uint64_t>(map_.hosts()));
    return nodes_.remote_leader(node, number);
  }
  const std::byte* input(std::size_t piece) const {
    return static_cast<const std::byte*>(request_.inputs.flat().data) +
           plan_.elements(piece).offset * reducer_.element_bytes;
  }
  Hierarchy::Flags& mine() const { return nodes_.flags(channel().rank()); }

  Hierarchy& nodes_;
  const HostMap& map_;  // of nodes
  const Request& request_;
  std::uint64_t sequence_;
  Reducer reducer_;
  PiecePlan plan_;
  Hierarchy::Slots slots_;
  bool has_plan_ = false;
  std::uint64_t base_ = 0;  // number of the first piece
  std::size_t staged_ = 0;
  std::size_t folded_ = 0;
  std::size_t joined_ = 0;
  std::size_t done_ = 0;
};

std::string refusal_of(const std::vector<int>& node_of) {
  if (node_of.empty() || *std::min_element(node_of.begin(), node_of.end()) < 0)
    return "a rank may run on several NUMA nodes, or it is not known on which";
  const HostMap nodes(node_of, 0);
  if (nodes.hosts() == 1) return "all ranks are on one NUMA node";
  if (nodes.largest_host() == 1) return "every rank is alone on its NUMA node";
  return {};
}

class AllReduceNuma final : public Algorithm {
 public:
  explicit AllReduceNuma(const ShmGroup& group)
      : Algorithm(shm_models::numa), refusal_(refusal_of(group.node_of)) {
    if (refusal_.empty())
      nodes_ = std::make_unique<Hierarchy>(HierarchyParts{.channel = group.channel,
                                                          .areas = group.areas.hierarchy,
                                                          .host_of = group.node_of,
                                                          .port = nullptr,
                                                          .shape = group.shape});
  }

  Verdict can_run(const Request& request) const override {
    if (!refusal_.empty()) return Verdict::no(refusal_);
    return can_reduce_in_memory(request);
  }
  // What a node comes to depends on who is there.
  Reproducibility promises(const Request&) const override { return Reproducibility::runs; }
  Operation& prepare(OperationStorage& storage, const Call& call) override {
    return storage.emplace<NumaOperation>(*nodes_, call);
  }

 private:
  std::string refusal_;
  std::unique_ptr<Hierarchy> nodes_;
};

}  // namespace

std::unique_ptr<Algorithm> make_all_reduce_numa(const ShmGroup& group) {
  return std::make_unique<AllReduceNuma>(group);
}

}  // namespace hymn
