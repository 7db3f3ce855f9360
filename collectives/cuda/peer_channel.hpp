// What one rank of a group has to work with its peers' GPUs: the staging buffers of all, and
// kernels.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithm.hpp"
#include "collectives/cuda/gpu_kernels.hpp"
#include "collectives/cuda/peer_team.hpp"
#include "gpu/pinned_pool.hpp"
#include "p2p/cuda/ipc_staging_buffer.hpp"

namespace hymn {

class LaunchQueue;
class PeerPlaces;

/// What a channel is made of.
struct PeerChannelParts {
  std::shared_ptr<GpuDevice> gpu;
  std::shared_ptr<LaunchQueue> queue;    ///< of this rank: what goes to its GPU has one order
  std::shared_ptr<PeerPlaces> places{};  ///< of this rank, for all its groups; null: there is one
  std::shared_ptr<IpcStagingBuffer> own;
  std::shared_ptr<PeerStagingBuffers> staging_buffers;  ///< of all, which are open
  std::vector<int> members;                             ///< global ranks, for errors
  GroupShape shape;
  std::size_t slot_bytes = 0;
  unsigned most_blocks = cuda::most_peer_blocks;  ///< of a kernel; the same on all
  Duration limit{};                               ///< for what kernels wait; zero: none
  bool high_priority = false;
};

/// Its calls are made by one thread at a time, under the queue's lock, but for those that say
/// otherwise. It must outlive the graphs into which its kernels were captured.
class PeerChannel {
 public:
  /// Throws BackendError.
  explicit PeerChannel(PeerChannelParts parts);
  ~PeerChannel();
  PeerChannel(const PeerChannel&) = delete;
  PeerChannel& operator=(const PeerChannel&) = delete;

  const PeerChannelParts& parts() const { return parts_; }
  /// Operations of another library, which may be made to give up, may come before kernels on a
  /// stream: `follows` tells whether one does. To be called before the group uses either.
  void set_follows(std::function<bool(bool is_captured)> follows) { follows_ = std::move(follows); }
  GpuDevice& gpu() const { return *parts_.gpu; }
  /// The beginning of the own staging buffer, in memory of the GPU.
  cuda::StagingHead* head() const {
    return reinterpret_cast<cuda::StagingHead*>(parts_.own->data());
  }

  /// Has the GPU read every staging buffer, each of which holds its rank's number, and write to it.
  /// Waits for no peer, but for the GPU, until `deadline`. Returns what was found wrong; empty:
  /// nothing.
  std::string probe(const std::vector<std::uint32_t>& numbers, Deadline deadline);

  /// Enqueues a kernel of peer_kernels.hpp; what is on other streams of this channel's comes before
  /// it, but for what is captured. `name` must be a literal. Throws BackendError.
  void launch(const char* name, const cuda::PeerCall& call, std::uint64_t packs,
              cuda_api::Stream stream, bool is_captured);

  /// What is put on the stream from now on comes after what has been launched, but for what was
  /// captured.
  void let_wait(cuda_api::Stream stream) {
    if (last_ != nullptr) gpu().wait_on(stream, last_);
  }

  /// Throws what has become of kernels that have ended: TimeoutError or AbortedError, naming the
  /// rank that did not come; and AbortedError when it was given up here. Thread-safe.
  void check() const;
  /// Whether check() would throw nothing. Thread-safe.
  bool is_sound() const;
  /// Kernels that wait end, and none runs any more. Thread-safe.
  void abort() noexcept;

 private:
  /// In pinned memory.
  struct Words {
    std::uint32_t aborted;
    std::uint32_t status;
    std::array<cuda::PeerProbe, cuda::most_peers> probes;
  };
  std::string wrong_in(const std::vector<std::uint32_t>& numbers) const;
  [[noreturn]] void throw_failure(cuda::PeerFailure why, int peer) const;

  const PeerChannelParts parts_;
  cuda::GpuKernels kernels_;
  PinnedPool pool_;
  PinnedPool::Block block_;
  Words* words_ = nullptr;
  cuda::PeerTeam team_{};
  std::function<bool(bool is_captured)> follows_;
  std::uint64_t last_stream_ = 0;   ///< its id
  cuda_api::Event last_ = nullptr;  ///< behind the last kernel that was not captured; null: none
};

}  // namespace hymn
