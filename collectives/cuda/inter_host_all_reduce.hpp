// How the shares of one operation get from host to host, while inside each host kernels fold and
// spread them: on the stream by NCCL, or through memory of the host by messages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "collectives/algorithm.hpp"
#include "gpu/cuda_api.hpp"
#include "p2p/message_port.hpp"

namespace hymn {

struct StagingArea;

/// Words of a rank's staging buffer, as cuda::StagingHead has them: NCCL is to set `crossed` to the
/// least that any of the ranks has in `kernels`.
struct InterHostWords {
  std::uint32_t* kernels = nullptr;
  std::uint32_t* crossed = nullptr;
};

/// All_reduces some buffers on the rank's GPU in place, among the ranks of other hosts that hold
/// the same shares. But for check() and abandon() it is called under the lock of the launch queue.
class InterHostAllReduce {
 public:
  InterHostAllReduce() = default;
  InterHostAllReduce(const InterHostAllReduce&) = delete;
  InterHostAllReduce& operator=(const InterHostAllReduce&) = delete;
  virtual ~InterHostAllReduce() = default;

  /// The operation has its place in the order of launches.
  virtual void begin() {}
  /// Asked until it is true before anything is on the stream.
  virtual bool is_ready() { return true; }
  /// The shares are there when the stream has come so far. True: whether they are whole is for
  /// kernels to see, by the words; false: for the host.
  virtual bool start(cuda_api::Stream stream, const InterHostWords& words) = 0;
  /// Asked next until it is true: the host may look whether the shares have been folded well, and
  /// only then calls step().
  virtual bool is_folded() { return true; }
  /// True: all that the GPU has to do of it is on the stream. Throws when it has failed.
  virtual bool step() = 0;
  /// To be asked while the GPU is at it; throws when it cannot come to its end.
  virtual void check() {}
  /// Of one that has been started: gives it up. Afterwards only is_gone() is called.
  virtual void abandon(const std::string& reason) noexcept = 0;
  /// Whether nothing but the stream still uses buffers after abandon().
  virtual bool is_gone() = 0;
};

/// What a group has between its hosts, of one kind. Thread-safe.
class HostBridge {
 public:
  HostBridge() = default;
  HostBridge(const HostBridge&) = delete;
  HostBridge& operator=(const HostBridge&) = delete;
  virtual ~HostBridge() = default;

  /// Whether such shares can cross. All members get the same answer.
  virtual Verdict can_carry(DataType dtype, ReduceKind kind) const = 0;
  virtual Reproducibility promises() const = 0;
  /// `shares` are on the GPU; `op` is what is left to be done between the hosts. `call` is that of
  /// the whole operation, and outlives the all_reduce's steps. Throws where it cannot go into a
  /// graph and `is_captured`.
  virtual std::unique_ptr<InterHostAllReduce> prepare(std::vector<BufferView> shares,
                                                      const ReduceOp& op, const Call& call,
                                                      bool is_captured) = 0;
};

/// Through pinned memory of the host, by messages over `port`, which is between the members of the
/// group. `column`: the ranks that hold the same shares, as ascending group ranks; `place`: of this
/// one among them.
std::shared_ptr<HostBridge> make_staged_bridge(std::shared_ptr<StagingArea> area,
                                               std::shared_ptr<MessagePort> port,
                                               std::vector<int> column, int place);

}  // namespace hymn
