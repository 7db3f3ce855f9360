#include "collectives/cuda/peer_channel.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/patience.hpp"
#include "collectives/cuda/peer_places.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

using namespace cuda;

unsigned blocks_for(std::uint64_t packs, unsigned most) {
  const std::uint64_t blocks = (packs + threads_of_block - 1) / threads_of_block;
  return static_cast<unsigned>(std::clamp<std::uint64_t>(blocks, 1, most));
}

std::uint32_t load(const std::uint32_t& word) {
  return std::atomic_ref(const_cast<std::uint32_t&>(word)).load(std::memory_order_acquire);
}

}  // namespace

PeerChannel::PeerChannel(PeerChannelParts parts)
    : parts_(std::move(parts)), kernels_(parts_.gpu), pool_(parts_.gpu) {
  block_ = pool_.take(sizeof(Words));
  words_ = ::new (block_.data) Words{};
  const auto& staging_buffers = parts_.staging_buffers->addresses();
  std::copy(staging_buffers.begin(), staging_buffers.end(), team_.staging_buffers);
  team_.slot_bytes = parts_.slot_bytes;
  team_.rank = static_cast<std::uint32_t>(parts_.shape.rank);
  team_.size = static_cast<std::uint32_t>(parts_.shape.size);
  team_.aborted = &words_->aborted;
  team_.status = &words_->status;
}

PeerChannel::~PeerChannel() {
  if (parts_.places != nullptr) parts_.places->leave(*this);
  pool_.give_back(block_);
  if (last_ != nullptr) gpu().give_back(last_);
}

std::string PeerChannel::probe(const std::vector<std::uint32_t>& numbers, Deadline deadline) {
  const cuda_api::Stream stream = gpu().stream(false);
  PeerCall call{};
  call.output = words_->probes.data();
  call.number = numbers[team_.rank];
  constexpr unsigned one_block = 1;
  kernels_.launch("hymn_probe_peers", one_block, stream, team_, call);
  const cuda_api::Event event = gpu().mark(stream);
  Patience patience;
  patience.deadline = deadline;
  if (!PatientWait(patience).until([&] { return gpu().has_happened(event); }))
    return "the GPU did not get to test whether it reaches its peers";
  gpu().give_back(event);
  return wrong_in(numbers);
}

std::string PeerChannel::wrong_in(const std::vector<std::uint32_t>& numbers) const {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const PeerProbe& found = words_->probes[i];
    if (found.number != numbers[i])
      return fmt::format("rank {} reads wrong data from the GPU of rank {}",
                         parts_.members[team_.rank], parts_.members[i]);
    if (found.kept != numbers[team_.rank])
      return fmt::format("the GPU of rank {} does not hold what rank {} has written there",
                         parts_.members[i], parts_.members[team_.rank]);
  }
  return "";
}

// The slots are used in the order of the kernels, so that one must not begin before another ends.
void PeerChannel::launch(const char* name, const PeerCall& call, std::uint64_t packs,
                         cuda_api::Stream stream, bool is_captured) {
  const std::uint64_t id = is_captured ? 0 : gpu().id_of(stream);
  if (!is_captured) {
    if (parts_.places != nullptr) parts_.places->enter(*this, stream);
    if (id == 0 || id != last_stream_) let_wait(stream);
  }
  PeerCall limited = call;
  limited.limit = is_captured ? 0 : static_cast<std::uint64_t>(parts_.limit.count());
  limited.checks_first = follows_ && follows_(is_captured) ? 1 : 0;
  kernels_.launch(name, blocks_for(packs, parts_.most_blocks), stream, team_, limited);
  if (is_captured) return;  // it runs when the graph does: what was enqueued is still the last
  if (last_ != nullptr) gpu().give_back(std::exchange(last_, nullptr));
  last_ = gpu().mark(stream);
  last_stream_ = id;
}

void PeerChannel::check() const {
  const std::uint32_t status = load(words_->status);
  const auto why = static_cast<PeerFailure>(status & 0xff);
  if (why != PeerFailure::none) throw_failure(why, parts_.members[status >> 8 & 0xff]);
  if (load(words_->aborted) != 0)
    throw AbortedError("the group's work on peer memory was given up");
}

void PeerChannel::throw_failure(PeerFailure why, int peer) const {
  switch (why) {
    case PeerFailure::not_crossed:
      throw AbortedError(
          "the data from other hosts has not arrived complete: a rank there has failed");
    case PeerFailure::aborted:
      if (peer == parts_.members[team_.rank])  // nobody was waited for
        throw AbortedError("the group's work on peer memory was given up");
      throw AbortedError(fmt::format(
          "the group's work on peer memory was given up while the GPU waited for rank {}", peer));
    case PeerFailure::none:
    case PeerFailure::timed_out:
      break;
  }
  throw TimeoutError(
      fmt::format("the GPU of rank {} did not arrive", peer), parts_.limit,
      {.remedy = "find out what that rank does instead, or give more time", .missing = {peer}});
}

bool PeerChannel::is_sound() const {
  return load(words_->status) == 0 && load(words_->aborted) == 0;
}

void PeerChannel::abort() noexcept {
  std::atomic_ref(words_->aborted).store(1, std::memory_order_release);
}

}  // namespace hymn
