#include "collectives/nccl/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/endless_call.hpp"
#include "gpu/nccl_calls.hpp"

namespace hymn {

using nccl_api::Comm;

NcclCommunicator::NcclCommunicator(NcclParts parts, std::shared_ptr<Exchange> exchange,
                                   std::vector<int> members, std::uint64_t tag)
    : parts_(std::move(parts)),
      exchange_(std::move(exchange)),
      members_(std::move(members)),
      tag_(tag),
      shared_(std::make_shared<SharedComm>(parts_.nccl, parts_.enter_gpu, parts_.cuda)) {}

NcclCommunicator::NcclCommunicator(NcclParts parts, NcclCommunicator& parent, int color)
    : parts_(std::move(parts)),
      exchange_(parent.exchange_),
      members_(parent.members_),
      parent_(&parent),
      color_(color),
      shared_(std::make_shared<SharedComm>(parts_.nccl, parts_.enter_gpu, parts_.cuda)) {}

NcclCommunicator::~NcclCommunicator() { shared_->abort(); }

bool NcclCommunicator::step() {
  switch (stage_) {
    case Stage::fresh:
      if (parent_ != nullptr)
        begin_split();
      else if (is_first())
        send_id();
      else
        stage_ = Stage::receiving;
      return false;
    case Stage::sending:
      if (has_sent()) begin_init();
      return false;
    case Stage::receiving:
      if (receive_id()) begin_init();
      return false;
    case Stage::calling:
      if (shared_->has_returned()) stage_ = Stage::settling;
      return false;
    case Stage::settling:
      if (has_settled()) stage_ = Stage::ready;
      return is_ready();
    case Stage::ready:
      return true;
  }
  return false;
}

// --- The id

void NcclCommunicator::send_id() {
  call(parts_.nccl, parts_.nccl.get_unique_id, &id_);
  const auto bytes = std::as_bytes(std::span(id_.bytes));
  for (const int member : members_)
    if (member != exchange_->rank()) sent_.push_back(exchange_->send_numbered(member, tag_, bytes));
  stage_ = Stage::sending;
}

// The first goes on only when the others are sure to get it: in NCCL it may wait for them, and an
// exchange that needs this rank's calls would stand still meanwhile.
bool NcclCommunicator::has_sent() const {
  return std::ranges::all_of(
      sent_, [this](std::uint64_t message) { return exchange_->has_left(message); });
}

bool NcclCommunicator::receive_id() {
  const auto message = exchange_->try_receive(members_.front(), tag_);
  if (!message) return false;
  if (message->bytes.size() != id_.bytes.size())
    throw NetworkError(fmt::format("an NCCL unique ID has {} bytes where {} were expected",
                                   message->bytes.size(), id_.bytes.size()));
  std::memcpy(id_.bytes.data(), message->bytes.data(), id_.bytes.size());
  return true;
}

// --- NCCL's part of it

nccl_api::Config NcclCommunicator::config() const {
  nccl_api::Config config;
  config.blocking = parts_.settings.blocking ? 1 : 0;
  config.min_ctas = parts_.settings.min_ctas;
  config.max_ctas = parts_.settings.max_ctas;
  config.cga_cluster_size = parts_.settings.cga_cluster_size;
  if (!parts_.settings.net_name.empty()) config.net_name = parts_.settings.net_name.c_str();
  return config;
}

// The settings are copied, too: NCCL may read their texts when this is no more.
void NcclCommunicator::begin_init() {
  stage_ = Stage::calling;
  const auto me = std::find(members_.begin(), members_.end(), exchange_->rank());
  const auto rank = static_cast<int>(me - members_.begin());
  const auto ranks = static_cast<int>(members_.size());
  shared_->begin([nccl = parts_.nccl, settings = parts_.settings, config = config(), id = id_, rank,
                  ranks](Comm* made) mutable {
    if (config.net_name != nullptr) config.net_name = settings.net_name.c_str();
    call(nccl, nccl.init_rank, made, ranks, id, rank, &config);
  });
}

// The parent is busy from now on, though the thread that calls NCCL may not have begun.
void NcclCommunicator::begin_split() {
  stage_ = Stage::calling;
  ++*parent_->being_split_;
  splits_parent_ = {nullptr, [splits = parent_->being_split_](void*) { --*splits; }};
  const auto me = std::find(members_.begin(), members_.end(), exchange_->rank());
  const auto key = static_cast<int>(me - members_.begin());
  shared_->begin(
      [nccl = parts_.nccl, settings = parts_.settings, config = config(), key,
       parent = parent_->handle(), held = parent_->use(), color = color_](Comm* made) mutable {
        if (config.net_name != nullptr) config.net_name = settings.net_name.c_str();
        call(nccl, nccl.split, parent, color, key, made, &config);
      },
      color_ != nccl_api::no_color);
}

// What is split is the parent's business first; the handle of the part may come only with its end.
bool NcclCommunicator::has_settled() {
  if (parent_ != nullptr) {
    if (!parent_->is_settled(parts_.nccl.split.name)) return false;
    splits_parent_ = nullptr;
    if (color_ == nccl_api::no_color) return true;
  }
  return handle() != nullptr && is_settled(parts_.nccl.init_rank.name);
}

bool NcclCommunicator::is_settled(const std::string& what) const {
  const auto held = use();
  const Comm comm = handle();
  nccl_api::Result state = nccl_api::success;
  call(parts_.nccl, parts_.nccl.get_async_error, comm, &state);
  if (state == nccl_api::in_progress) return false;
  if (state != nccl_api::success) throw_nccl_error(parts_.nccl, what, state, comm);
  return true;
}

bool NcclCommunicator::check() {
  if (!is_ready() || handle() == nullptr) return true;
  return is_settled("the communicator") && *being_split_ == 0;
}

// --- Waiting for it

void NcclCommunicator::complete(const Patience& patience) {
  step_until([this] { return is_ready(); }, patience);
}

void NcclCommunicator::begin(const Patience& patience) {
  step_until([this] { return stage_ >= Stage::calling; }, patience);
}

template <class Until>
void NcclCommunicator::step_until(Until until, const Patience& patience) {
  try {
    PatientWait wait(patience, members_);
    const auto is_there = [&] {
      step();
      return until();
    };
    if (!wait.until(is_there)) throw_left(patience, wait);
  } catch (...) {
    abort();
    throw;
  }
}

}  // namespace hymn
