#include "collectives/nccl/channel.hpp"

#include <algorithm>
#include <utility>

#include "base/endless_call.hpp"
#include "collectives/launch/launch_queue.hpp"
#include "gpu/nccl_calls.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

constexpr int part_color = 0;

[[noreturn]] void throw_given_up() {
  throw AbortedError("NCCL's communicator of this group was given up");
}

[[noreturn]] void throw_parent_given_up() {
  throw ParentAborted("the group from whose communicator NCCL splits this group's was aborted");
}

}  // namespace

NcclChannel::~NcclChannel() {
  if (own_stream_ != nullptr) gpu().destroy_stream(own_stream_);
}

std::shared_ptr<NcclChannel> NcclChannel::pair_with(int group_rank) {
  std::lock_guard lock(mutex_);
  auto& pair = pairs_[group_rank];
  if (pair == nullptr) {
    const int me = parts_.shape.rank;
    NcclChannelParts parts = parts_;
    parts.members = {parts_.members[static_cast<std::size_t>(std::min(me, group_rank))],
                     parts_.members[static_cast<std::size_t>(std::max(me, group_rank))]};
    parts.tag = parts_.pair_tag;
    parts.shape.rank = me < group_rank ? 0 : 1;
    parts.shape.size = 2;
    pair = std::make_shared<NcclChannel>(std::move(parts));
    pair->is_pair_ = true;
    pair->before_abort_ = before_abort_;
    if (given_up_) pair->abort();
  }
  return pair;
}

std::shared_ptr<NcclChannel> NcclChannel::column_of(std::vector<int> members) {
  const int me = parts_.members[static_cast<std::size_t>(parts_.shape.rank)];
  NcclChannelParts parts = parts_;
  parts.shape.rank = static_cast<int>(std::ranges::find(members, me) - members.begin());
  parts.shape.size = static_cast<int>(members.size());
  parts.members = std::move(members);
  parts.tag = parts.column_tag;
  std::lock_guard lock(mutex_);
  column_ = std::make_shared<NcclChannel>(std::move(parts));
  column_->before_abort_ = before_abort_;
  if (given_up_) column_->abort();
  return column_;
}

template <class Visit>
void NcclChannel::for_each_inner(Visit visit) const {
  for (const auto& [rank, pair] : pairs_) visit(*pair);
  if (column_ != nullptr) visit(*column_);
}

cuda_api::Stream NcclChannel::stream() {
  if (!is_pair_) return gpu().stream(parts_.high_priority);
  std::lock_guard lock(mutex_);
  if (own_stream_ == nullptr) own_stream_ = gpu().make_stream(parts_.high_priority);
  return own_stream_;
}

void NcclChannel::keep(std::unique_ptr<NcclCommunicator> made) {
  std::lock_guard lock(mutex_);
  communicator_ = std::move(made);
  if (given_up_) communicator_->abort();
}

void NcclChannel::begin() {
  if (has_begun() || parent_ != nullptr) return;
  // A barrier that is captured must not be the first to ask for it: then nothing can be allocated.
  gpu().scratch();
  if (twin_ != nullptr && twin_->has_begun()) {
    parent_ = std::exchange(twin_, nullptr);
    return;  // it is split when the parent is ready and quiet
  }
  twin_ = nullptr;
  keep(
      std::make_unique<NcclCommunicator>(parts_.nccl, parts_.exchange, parts_.members, parts_.tag));
}

void NcclChannel::make(const Patience& patience, bool until_ready) {
  begin();
  if (until_ready)
    communicator_->complete(patience);
  else
    communicator_->begin(patience);
}

std::unique_ptr<NcclCommunicator> NcclChannel::split(const NcclParts& part, int color) {
  ++splits_;
  return std::make_unique<NcclCommunicator>(part, *communicator_, color);
}

void NcclChannel::split_from(const std::shared_ptr<NcclChannel>& parent, const Patience& patience) {
  parent_ = parent;
  keep(parent->begin_split(parts_.nccl, part_color, patience));
  communicator_->complete(patience);
}

void NcclChannel::split_nothing_from(NcclChannel& parent, const Patience& patience) {
  parent.begin_split(parent.parts_.nccl, nccl_api::no_color, patience)->complete(patience);
}

// NCCL splits no communicator on which something is in flight. Under the lock of the queue: what
// this rank has called before must be launched first, as it is on the others, and no other thread
// may launch between the look and the split.
std::unique_ptr<NcclCommunicator> NcclChannel::begin_split(const NcclParts& part, int color,
                                                           const Patience& patience) {
  std::unique_ptr<NcclCommunicator> made;
  const auto begin = [&] {
    if (is_in_flight()) return;
    made = split(part, color);
    made->step();
  };
  PatientWait wait(patience, parts_.members);
  const auto has_begun = [&] {
    queue().try_alone(*this, begin);
    return made != nullptr;
  };
  if (!wait.until(has_begun)) throw_left(patience, wait);
  return made;
}

bool NcclChannel::step() {
  std::lock_guard stepping(step_mutex_);
  if (communicator_ == nullptr) {
    if (parent_ == nullptr) return false;
    if (parent_->is_given_up()) throw_parent_given_up();
    if (!parent_->is_quiet()) return false;
    keep(parent_->split(parts_.nccl, part_color));
  }
  if (std::lock_guard lock(mutex_); given_up_) throw_given_up();
  if (!communicator_->step()) return false;
  was_ready_.store(true, std::memory_order_release);
  return check();
}

bool NcclChannel::check() {
  std::lock_guard lock(mutex_);
  if (given_up_) throw_given_up();
  return communicator_->check();
}

NcclPlace NcclChannel::place(cuda_api::Stream stream) const {
  void* const scratch = reinterpret_cast<void*>(gpu().scratch());
  return {parts_.nccl.nccl, communicator_->handle(), stream, parts_.shape,
          scratch,          communicator_->use()};
}

bool NcclChannel::has_any_in_flight() const {
  std::lock_guard lock(mutex_);
  bool has_any = is_in_flight();
  for_each_inner([&has_any](const NcclChannel& part) { has_any = has_any || part.is_in_flight(); });
  return has_any;
}

void NcclChannel::make_known(const std::shared_ptr<KnownBuffer>& buffer) {
  const nccl_api::Functions& nccl = parts_.nccl.nccl;
  const GpuDevice::Entry entry(gpu());
  std::lock_guard lock(mutex_);
  if (given_up_) throw_given_up();
  const nccl_api::Comm comm = communicator_->handle();
  known_.push_back(buffer);
  if (buffer->how == Registration::window)
    call(nccl, nccl.open_window, comm, buffer->data, buffer->bytes, &buffer->window,
         nccl_api::symmetric_window);
  else
    call(nccl, nccl.register_buffer, comm, buffer->data, buffer->bytes, &buffer->handle);
  buffer->is_known = true;
}

nccl_api::Result NcclChannel::deregister(const KnownBuffer& buffer) const {
  const nccl_api::Functions& nccl = parts_.nccl.nccl;
  const nccl_api::Comm comm = communicator_->handle();
  if (buffer.how == Registration::window && buffer.window == nullptr) return nccl_api::success;
  return buffer.how == Registration::window ? nccl.close_window.pointer(comm, buffer.window)
                                            : nccl.deregister_buffer.pointer(comm, buffer.handle);
}

void NcclChannel::forget(const std::shared_ptr<KnownBuffer>& buffer) {
  const GpuDevice::Entry entry(gpu());
  std::lock_guard lock(mutex_);
  if (!std::exchange(buffer->is_known, false)) return;
  std::erase(known_, buffer);
  const nccl_api::Result result = deregister(*buffer);
  if (result != nccl_api::success && result != nccl_api::in_progress)
    throw_nccl_error(parts_.nccl.nccl, "to deregister a buffer", result, communicator_->handle());
}

bool NcclChannel::knows(const KnownBuffer& buffer) const {
  std::lock_guard lock(mutex_);
  return buffer.is_known;
}

void NcclChannel::free(void* allocated) noexcept {
  const auto release = [allocated, release = parts_.nccl.nccl.release.pointer] {
    release(allocated);
  };
  if (std::lock_guard lock(mutex_); !given_up_) return void(release());
  when_gone(release);
}

void NcclChannel::when_gone(std::function<void()> act) {
  {
    std::lock_guard lock(mutex_);
    if (communicator_ != nullptr) return communicator_->when_gone(std::move(act));
  }
  act();
}

void NcclChannel::abort() noexcept {
  std::lock_guard lock(mutex_);
  if (before_abort_) before_abort_();
  given_up_ = true;
  // NCCL drops them with the communicator.
  for (const auto& buffer : known_) buffer->is_known = false;
  if (communicator_ != nullptr) communicator_->abort();
  for_each_inner([](NcclChannel& part) { part.abort(); });
}

void NcclChannel::forget_all() {
  for (const auto& buffer : known_)
    if (std::exchange(buffer->is_known, false)) deregister(*buffer);
  known_.clear();
}

void NcclChannel::rest() {
  std::lock_guard lock(mutex_);
  before_abort_ = nullptr;
  for_each_inner([](NcclChannel& part) { part.rest(); });
  forget_all();
}

void NcclChannel::finish() {
  std::lock_guard lock(mutex_);
  before_abort_ = nullptr;
  for_each_inner([](NcclChannel& part) { part.finish(); });
  if (communicator_ == nullptr) return;
  forget_all();
  if (communicator_->is_ready())
    communicator_->finish();
  else
    communicator_->abort();
}

bool NcclChannel::is_gone() const {
  std::lock_guard lock(mutex_);
  bool is_gone = communicator_ == nullptr || communicator_->is_gone();
  for_each_inner([&is_gone](const NcclChannel& part) { is_gone = is_gone && part.is_gone(); });
  return is_gone;
}

}  // namespace hymn
