#include "runtime/group/gone_members.hpp"

#include <algorithm>

namespace hymn {
namespace {

// How long what a member did before its end may still be on its way: through shared memory it is
// there already, and only has to be found by the steps of the operation.
constexpr Duration way_of_known = std::chrono::milliseconds(20);
// Who looked at its memory may still have to say how far it had come.
constexpr Duration way_of_unknown = std::chrono::milliseconds(200);
// What a member has sent before it left in good order MPI may still have to send, or a busy machine
// to carry: to say that it will not come would be wrong, and to say so later costs little.
constexpr Duration way_of_last_messages = std::chrono::seconds(2);

/// How long what is awaited of this member may still be on its way.
Duration way_of(const PeerNews& news, const PendingOp& op, Duration otherwise) {
  const bool has_left_well = news.state == PeerState::left && !news.broke_off;
  return awaits_message(op.type) && has_left_well ? way_of_last_messages : otherwise;
}

}  // namespace

void GoneMembers::note(int group_rank, const PeerNews& news, TimePoint now) {
  std::lock_guard lock(mutex_);
  for (Gone& gone : gone_) {
    if (gone.group_rank != group_rank) continue;
    gone.news = news;
    return;
  }
  gone_.push_back({group_rank, news, now});
}

void GoneMembers::forget(int group_rank) {
  std::lock_guard lock(mutex_);
  std::erase_if(gone_, [group_rank](const Gone& gone) { return gone.group_rank == group_rank; });
}

const GroupMark* GoneMembers::mark_of(const Gone& gone) const {
  for (const GroupMark& mark : gone.news.marks)
    if (mark.uid == uid_) return &mark;
  return nullptr;
}

bool GoneMembers::is_missed(const Gone& gone, const PendingOp& op, TimePoint now) const {
  const GroupMark* const mark = mark_of(gone);
  const Duration way = way_of(gone.news, op, mark != nullptr ? way_of_known : way_of_unknown);
  const bool has_arrived = now - gone.since >= way;
  if (!is_collective(op.type)) return op.peer == gone.group_rank && has_arrived;
  if (mark == nullptr) return has_arrived;
  if (mark->completed >= op.sequence) return false;
  return mark->entered < op.sequence || has_arrived;
}

std::vector<PeerNews> GoneMembers::missed_by(const PendingOp& op, TimePoint now) const {
  std::lock_guard lock(mutex_);
  std::vector<PeerNews> missed;
  if (awaits_message(op.type) && op.peer == any_source) {
    // Whoever has failed may have been the one that was to send: nothing tells.
    for (const Gone& gone : gone_)
      if (has_failed(gone.news.state) && now - gone.since >= way_of_unknown)
        missed.push_back(gone.news);
    if (!missed.empty()) return missed;
    // Any of those who have not left may still send.
    if (static_cast<int>(gone_.size()) < size_ - (me_ >= 0 ? 1 : 0)) return missed;
    for (const Gone& gone : gone_)
      if (now - gone.since >= way_of(gone.news, op, way_of_unknown)) missed.push_back(gone.news);
    if (missed.size() < gone_.size()) missed.clear();
    return missed;
  }
  for (const Gone& gone : gone_)
    if (is_missed(gone, op, now)) missed.push_back(gone.news);
  return missed;
}

std::vector<PeerNews> GoneMembers::failed() const {
  std::lock_guard lock(mutex_);
  std::vector<PeerNews> failed;
  for (const Gone& gone : gone_)
    if (has_failed(gone.news.state)) failed.push_back(gone.news);
  return failed;
}

std::vector<PeerNews> GoneMembers::left_before(std::uint64_t sequence) const {
  std::lock_guard lock(mutex_);
  std::vector<PeerNews> left;
  for (const Gone& gone : gone_) {
    const GroupMark* const mark = mark_of(gone);
    if (gone.news.state == PeerState::left && (mark == nullptr || mark->entered < sequence))
      left.push_back(gone.news);
  }
  return left;
}

}  // namespace hymn
