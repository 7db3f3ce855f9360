#include "collectives/hierarchical/collective.hpp"

#include <algorithm>
#include <cstring>

#include "collectives/hierarchical/fold.hpp"
#include "collectives/shm_base/shm_reduction.hpp"

namespace hymn {
namespace {

// Messages of both steps between the same leaders, each in the order of the pieces.
constexpr unsigned gather_phase = 0;
constexpr unsigned spread_phase = 1;

BufferView bytes_at(std::byte* data, std::size_t count, std::size_t each) {
  return BufferView(data, count * each, DataType::uint8);
}

const std::byte* at(const ConstBufferView& view, std::size_t element, std::size_t element_bytes) {
  return static_cast<const std::byte*>(view.data) + element * element_bytes;
}

}  // namespace

HierarchicalCollective::HierarchicalCollective(const std::shared_ptr<Hierarchy>& hierarchy,
                                               const Call& call)
    : ShmOperation(hierarchy->channel(), call),
      shared_(hierarchy),
      hierarchy_(*hierarchy),
      request_(*call.request),
      order_(call.order),
      root_(call.peer) {
  const HostMap& map = hierarchy_.map();
  const OpType type = request_.type;
  if (root_ >= 0) root_host_ = map.host_of(root_);
  if (type == OpType::broadcast) source_ = root_is_here() ? map.index_of(root_) : nobody;
  const bool is_root = root_ == hierarchy_.shape().rank;
  wants_ = type == OpType::reduce ? is_root : type != OpType::broadcast || !is_root;
  if (reduces(type)) reducer_ = reducer_for(request_.inputs.dtype(), request_.op);
  if (type != OpType::barrier) element_bytes_ = request_.inputs.element_bytes();
}

std::unique_ptr<AbandonedOperation> HierarchicalCollective::abandon(
    const std::string& reason) noexcept {
  ShmOperation::abandon(reason);
  return began_ ? Hierarchy::abandon(shared_, reason) : nullptr;
}

void HierarchicalCollective::begin() {
  began_ = true;
  base_ = hierarchy_.next_piece;
  if (open()) stage_pieces();
}

// Cuts the call, as soon as it is known what a slot holds.
bool HierarchicalCollective::open() {
  const HostMap& map = hierarchy_.map();
  const std::size_t unit = std::max(element_bytes_, reducer_.accumulator_bytes);
  if (PiecePlan::bytes_of(request_, map, unit) > Hierarchy::small_bytes) {
    if (!hierarchy_.agree_on_slots(order_)) return false;
    slots_ = hierarchy_.large_slots();
  }
  plan_ = PiecePlan::make(request_, map, root_, unit, slots_.bytes);
  if (is_reduction() && plan_.pieces != 0) {
    const std::size_t part = plan_.part(0, map.my_host(), map).count;
    hierarchy_.make_room(
        plan_.length(0) * reducer_.accumulator_bytes,
        part * reducer_.accumulator_bytes * static_cast<std::size_t>(map.hosts() - 1));
  }
  has_plan_ = true;
  return true;
}

bool HierarchicalCollective::advance() {
  if (!has_plan_ && !open()) return false;
  stage_pieces();
  fold_pieces();
  gather_pieces();
  spread_pieces();
  take_pieces();
  if (done_ < plan_.pieces) return false;
  hierarchy_.next_piece = base_ + plan_.pieces;
  return true;
}

// --- The stages: each piece in order, as far as it goes

void HierarchicalCollective::stage_pieces() {
  for (; staged_ < plan_.pieces && hierarchy_.may_use_slot(base_ + staged_); ++staged_) {
    if (leads(staged_)) expect_messages(staged_);
    show(staged_);
  }
}

void HierarchicalCollective::fold_pieces() {
  for (; folded_ < staged_; ++folded_) {
    if (!leads(folded_)) continue;
    if (!all_have_staged(folded_)) return;
    fold_here(folded_);
    send_gather(folded_);
  }
}

void HierarchicalCollective::gather_pieces() {
  for (; gathered_ < folded_; ++gathered_) {
    if (!leads(gathered_)) continue;
    auto& messages = hierarchy_.flight(base_ + gathered_).gather;
    if (messages && !messages->test()) return;
    messages.reset();
    if (is_reduction()) fold_hosts(gathered_);
    send_spread(gathered_);
  }
}

void HierarchicalCollective::spread_pieces() {
  for (; spread_ < gathered_; ++spread_) {
    if (!leads(spread_)) continue;
    auto& messages = hierarchy_.flight(base_ + spread_).spread;
    if (messages && !messages->test()) return;
    messages.reset();
    channel().publish(my_flags().ready, base_ + spread_ + 1);
  }
}

void HierarchicalCollective::take_pieces() {
  const std::size_t before = done_;
  for (; done_ < spread_ && (!wants_ || has_result(done_)); ++done_)
    if (wants_) take(done_);
  if (done_ != before) channel().publish(my_flags().done, base_ + done_);
}

// --- One piece, inside this host

template <class Visit>
void HierarchicalCollective::for_each_run(bool blocks, std::size_t piece, Visit&& visit) const {
  const HostMap& map = hierarchy_.map();
  const Slice run = plan_.elements(piece);
  if (run.count == 0) return;
  if (!blocks) {
    const auto place = static_cast<std::size_t>(plan_.blocks > 1 ? map.my_place() : 0);
    visit(run.offset, place * run.count, run.count);
    return;
  }
  for (int place = 0; place < map.members(); ++place)
    visit(static_cast<std::size_t>(map.rank_at(place)) * plan_.count + run.offset,
          static_cast<std::size_t>(place) * run.count, run.count);
}

void HierarchicalCollective::stage(std::size_t piece) {
  std::byte* const slot = hierarchy_.staged(slots_, channel().rank(), base_ + piece);
  for_each_run(
      plan_.cuts_input, piece, [&](std::size_t user, std::size_t packed, std::size_t count) {
        std::memcpy(slot + packed * element_bytes_,
                    at(request_.inputs.flat(), user, element_bytes_), count * element_bytes_);
      });
}

// Whoever has nothing to stage labels the piece, too, so that members that make other calls find
// out by what they fold or take. Nobody else waits for that, so nobody need be woken.
void HierarchicalCollective::show(std::size_t piece) {
  const std::uint64_t number = base_ + piece;
  my_flags().labels[number % Hierarchy::slots] = {label(), request_.op.factor()};
  if (must_stage(piece)) {
    stage(piece);
    channel().publish(my_flags().staged, number + 1);
  } else if (source_ != everybody) {
    my_flags().staged.store(number + 1, std::memory_order_release);
  }
}

void HierarchicalCollective::require_same_call(int member, std::size_t piece) const {
  const auto& labels = hierarchy_.flags(member).labels;
  if (labels[(base_ + piece) % Hierarchy::slots].call != label()) [[unlikely]]
    throw_for(member);
}

bool HierarchicalCollective::all_have_staged(std::size_t piece) {
  const std::uint64_t number = base_ + piece;
  for (int member = 0; member < channel().size(); ++member) {
    if (!contributes(member) || member == channel().rank()) continue;
    if (hierarchy_.flags(member).staged.load(std::memory_order_acquire) <= number) return false;
    require_same_call(member, piece);
  }
  return true;
}

// Where the members on this host have their inputs.
void HierarchicalCollective::list_inputs(std::size_t piece, std::size_t user, std::size_t packed) {
  for (int member = 0; member < channel().size(); ++member)
    hierarchy_.inputs[static_cast<std::size_t>(member)] =
        member == channel().rank()
            ? at(request_.inputs.flat(), user, element_bytes_)
            : hierarchy_.staged(slots_, member, base_ + piece) + packed * element_bytes_;
}

// Their own factors of premul_sum; null: there are none.
const double* HierarchicalCollective::list_factors(std::size_t piece) {
  if (request_.op.kind() != ReduceKind::premul_sum) return nullptr;
  for (int member = 0; member < channel().size(); ++member)
    hierarchy_.factors[static_cast<std::size_t>(member)] =
        member == channel().rank()
            ? request_.op.factor()
            : hierarchy_.flags(member).labels[(base_ + piece) % Hierarchy::slots].factor;
  return hierarchy_.factors.data();
}

// What the members on this host have staged, as one: folded, or side by side.
void HierarchicalCollective::fold_here(std::size_t piece) {
  const int members = channel().size();
  const HostMap& map = hierarchy_.map();
  if (is_prefix() && map.my_host() == map.hosts() - 1) return;  // nobody comes behind them
  if (is_reduction()) {
    const double* const factors = list_factors(piece);
    std::byte* const partial = hierarchy_.flight(base_ + piece).partial;
    for_each_run(plan_.cuts_input, piece,
                 [&](std::size_t user, std::size_t packed, std::size_t count) {
                   list_inputs(piece, user, packed);
                   fold_inputs(reducer_, hierarchy_.inputs.data(), members,
                               partial + packed * reducer_.accumulator_bytes, count, factors);
                 });
  } else if (request_.type == OpType::all_gather) {
    const Slice run = plan_.elements(piece);
    for (int member = 0; member < members; ++member) {
      const std::size_t packed =
          static_cast<std::size_t>(map.first(map.my_host()) + member) * run.count;
      list_inputs(piece, run.offset, packed);
      std::memcpy(result(piece) + packed * element_bytes_,
                  hierarchy_.inputs[static_cast<std::size_t>(member)], run.count * element_bytes_);
    }
  }
}

std::byte* HierarchicalCollective::result(std::size_t piece) const {
  const std::uint64_t number = base_ + piece;
  return source_ >= 0 ? hierarchy_.staged(slots_, source_, number)
                      : hierarchy_.laid_out(slots_, maker(piece), number);
}

bool HierarchicalCollective::has_result(std::size_t piece) const {
  const std::uint64_t number = base_ + piece;
  const Hierarchy::Flags& flags = hierarchy_.flags(maker(piece));
  const auto& flag = source_ >= 0 ? flags.staged : flags.ready;
  return flag.load(std::memory_order_acquire) > number;
}

void HierarchicalCollective::take(std::size_t piece) {
  require_same_call(maker(piece), piece);
  if (is_prefix()) return take_prefix(piece);
  const std::byte* const slot = result(piece);
  for_each_run(
      plan_.cuts_output, piece, [&](std::size_t user, std::size_t packed, std::size_t count) {
        std::memcpy(static_cast<std::byte*>(request_.outputs.flat().data) + user * element_bytes_,
                    slot + packed * element_bytes_, count * element_bytes_);
      });
}

// The leader has seen all inputs of its host, and so may everybody when it has the leader's word.
void HierarchicalCollective::take_prefix(std::size_t piece) {
  const HostMap& map = hierarchy_.map();
  const bool is_first = map.my_host() == 0;
  const int members = channel().rank() + (request_.type == OpType::scan ? 1 : 0);
  if (is_first && members == 0) return;  // nobody comes before the first rank
  const Slice run = plan_.elements(piece);
  list_inputs(piece, run.offset, 0);
  fold_behind(reducer_, is_first ? nullptr : result(piece), hierarchy_.inputs.data(), members,
              static_cast<std::byte*>(request_.outputs.flat().data) + run.offset * element_bytes_,
              run.count, list_factors(piece));
}

// --- One piece, between the leaders of the hosts

// Before it is folded here, so that what comes early need not be kept by the mechanism.
void HierarchicalCollective::expect_messages(std::size_t piece) {
  const std::uint64_t number = base_ + piece;
  const HostMap& map = hierarchy_.map();
  const int here = map.my_host();
  Hierarchy::Flight& flight = hierarchy_.flight(number);
  if (plan_.gather.used) flight.gather = hierarchy_.port().open();
  if (plan_.spread.used) flight.spread = hierarchy_.port().open();
  const Slice mine = plan_.part(piece, here, map);
  std::size_t arrival = 0;
  for (int host = 0; host < map.hosts(); ++host) {
    const int leader = hierarchy_.remote_leader(host, number);
    if (plan_.gather.has(host, here) && plan_.travels(mine)) {
      const std::size_t each = is_reduction() ? reducer_.accumulator_bytes : element_bytes_;
      std::byte* const to = is_reduction() ? flight.incoming + arrival++ * mine.count * each
                                           : result(piece) + mine.offset * each;
      flight.gather->recv(leader, tag(gather_phase), bytes_at(to, mine.count, each));
    }
    const Slice theirs = plan_.part(piece, host, map);
    if (plan_.spread.has(host, here) && plan_.travels(theirs))
      flight.spread->recv(
          leader, tag(spread_phase),
          bytes_at(result(piece) + theirs.offset * element_bytes_, theirs.count, element_bytes_));
  }
}

void HierarchicalCollective::send_gather(std::size_t piece) {
  const std::uint64_t number = base_ + piece;
  const HostMap& map = hierarchy_.map();
  Hierarchy::Flight& flight = hierarchy_.flight(number);
  std::byte* const from = is_reduction() ? flight.partial : result(piece);
  const std::size_t each = is_reduction() ? reducer_.accumulator_bytes : element_bytes_;
  for (int host = 0; host < map.hosts(); ++host) {
    const Slice part = plan_.part(piece, host, map);
    if (plan_.gather.has(map.my_host(), host) && plan_.travels(part))
      flight.gather->send(hierarchy_.remote_leader(host, number), tag(gather_phase),
                          bytes_at(from + part.offset * each, part.count, each));
  }
}

// In the order of the hosts on each of them, so that all that fold the same get the same bits. Of a
// prefix reduction only what has come, from the hosts before this one.
void HierarchicalCollective::fold_hosts(std::size_t piece) {
  const HostMap& map = hierarchy_.map();
  const int here = map.my_host();
  if (plan_.gather.only_to >= 0 && plan_.gather.only_to != here) return;
  Hierarchy::Flight& flight = hierarchy_.flight(base_ + piece);
  const Slice mine = plan_.part(piece, here, map);
  if (mine.count == 0) return;
  const std::size_t each = reducer_.accumulator_bytes;
  std::byte* const own = flight.partial + mine.offset * each;
  std::byte* next = flight.incoming;
  for (int host = 0; host < map.hosts(); ++host) {
    hierarchy_.inputs[static_cast<std::size_t>(host)] = host == here ? own : next;
    if (host != here) next += mine.count * each;
  }
  if (is_prefix()) {
    if (here != 0)
      reduce_all(of_accumulators(reducer_), hierarchy_.inputs.data(), here, result(piece),
                 mine.count);
    return;
  }
  fold_accumulators(reducer_, hierarchy_.inputs.data(), map.hosts(), own,
                    result(piece) + mine.offset * element_bytes_, mine.count,
                    hierarchy_.shape().size);
}

void HierarchicalCollective::send_spread(std::size_t piece) {
  const std::uint64_t number = base_ + piece;
  const HostMap& map = hierarchy_.map();
  const Slice mine = plan_.part(piece, map.my_host(), map);
  for (int host = 0; host < map.hosts(); ++host)
    if (plan_.spread.has(map.my_host(), host) && plan_.travels(mine))
      hierarchy_.flight(number).spread->send(
          hierarchy_.remote_leader(host, number), tag(spread_phase),
          bytes_at(result(piece) + mine.offset * element_bytes_, mine.count, element_bytes_));
}

}  // namespace hymn
