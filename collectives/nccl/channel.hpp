// What one rank of a group has of NCCL: a communicator, made when it is needed, and the GPU that it
// is for.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "collectives/nccl/communicator.hpp"
#include "collectives/nccl/launch.hpp"
#include "gpu/gpu_device.hpp"
#include "hymn/registered_buffer.hpp"

namespace hymn {

class LaunchQueue;

/// What a channel is made of.
struct NcclChannelParts {
  NcclParts nccl;
  std::shared_ptr<GpuDevice> gpu;
  std::shared_ptr<LaunchQueue> queue;  ///< of this rank: all its channels have the same
  std::shared_ptr<Exchange> exchange;
  std::vector<int> members;      ///< global ranks
  std::uint64_t tag = 0;         ///< of the exchange, for this group alone
  std::uint64_t pair_tag = 0;    ///< the same, for its pairs
  std::uint64_t column_tag = 0;  ///< the same, for its columns
  GroupShape shape;
  bool high_priority = false;  ///< of the stream for what is given none
};

/// Its calls are made by one thread at a time, under the queue's lock or before the group is used;
/// but for those that say otherwise.
class NcclChannel {
 public:
  explicit NcclChannel(NcclChannelParts parts) : parts_(std::move(parts)) {}
  ~NcclChannel();
  NcclChannel(const NcclChannel&) = delete;
  NcclChannel& operator=(const NcclChannel&) = delete;

  const NcclChannelParts& parts() const { return parts_; }
  GpuDevice& gpu() const { return *parts_.gpu; }
  LaunchQueue& queue() const { return *parts_.queue; }

  /// The same ranks have one already: if that has begun when this one is first used, this one is
  /// split from it.
  void set_twin(std::shared_ptr<NcclChannel> twin) { twin_ = std::move(twin); }
  /// From now on it has begun to be: settles what it is made from, which must come out the same on
  /// all ranks, so it looks at nothing but the order of this rank's calls. Twice changes nothing.
  void begin();
  bool has_begun() const { return communicator_ != nullptr; }
  /// Whether something could be launched on it before. Thread-safe.
  bool was_ready() const { return was_ready_.load(std::memory_order_acquire); }
  /// Begins, and waits until it is ready, or only until NCCL is at work by itself. Throws as
  /// NcclCommunicator::complete().
  void make(const Patience& patience, bool until_ready);
  /// Splits it from `parent`, which has begun and all of whose ranks do so, and waits until it is
  /// ready. Throws as NcclCommunicator::complete().
  void split_from(const std::shared_ptr<NcclChannel>& parent, const Patience& patience);
  /// The same on a rank of the parent that is in no part.
  static void split_nothing_from(NcclChannel& parent, const Patience& patience);

  /// For the messages between this rank and that one of the group: a channel of these two. A
  /// message concerns no others, who may never come to make a communicator of all; and one that
  /// waits must not hold up the group's collectives. Thread-safe.
  std::shared_ptr<NcclChannel> pair_with(int group_rank);
  /// For collectives among some of the group: a channel of these, given as ascending global ranks,
  /// this one among them. One at a time; it ends with this one. Thread-safe.
  std::shared_ptr<NcclChannel> column_of(std::vector<int> members);
  /// That of its operations which are given none; pairs have one each.
  cuda_api::Stream stream();

  /// Goes on making the communicator; true when something may be launched on it. Throws
  /// BackendError.
  bool step();
  /// To be asked again and again while something is in flight. Throws BackendError when NCCL has
  /// found that it cannot go on, and AbortedError when the channel was given up. Thread-safe.
  /// False: NCCL is busy with what was asked of it.
  bool check();
  /// For one call: while it lives the communicator is not freed. Throws AbortedError when it was
  /// given up.
  NcclPlace place(cuda_api::Stream stream) const;
  // --- Buffers of the application that NCCL knows beforehand

  struct KnownBuffer {
    void* data = nullptr;
    std::size_t bytes = 0;
    Registration how = Registration::local;
    void* handle = nullptr;             ///< of a local registration
    nccl_api::Window window = nullptr;  ///< may be set some time later, until step() is true again
    bool is_known = false;              ///< false again when the communicator has ended
  };
  /// Tells NCCL of it, on a communicator that is ready. Throws BackendError.
  void make_known(const std::shared_ptr<KnownBuffer>& buffer);
  /// Throws BackendError; it is not known any more even then. Does nothing where it is not.
  void forget(const std::shared_ptr<KnownBuffer>& buffer);
  /// Whether NCCL knows it.
  bool knows(const KnownBuffer& buffer) const;
  /// Frees what NCCL has allocated, now or, where the communicator was given up, when NCCL has let
  /// go of it. Thread-safe.
  void free(void* allocated) noexcept;
  /// Calls `act`, which throws nothing, when NCCL has let go of the communicator, which has been
  /// given up or has ended; now, where there is none. Thread-safe.
  void when_gone(std::function<void()> act);

  /// Operations on the GPU of which the host does not know yet that they have ended. Thread-safe.
  void took_off() { ++in_flight_; }
  void landed() { --in_flight_; }
  bool is_in_flight() const { return in_flight_ > 0; }
  /// The same of all that end with it, too. Thread-safe.
  bool has_any_in_flight() const;

  /// How often a communicator was split from this one. Thread-safe.
  std::uint64_t splits() const { return splits_; }

  /// Called whenever it, or a channel of two or a column of it, is given up before its end in good
  /// order, and before NCCL is told; throws nothing. To be set before the channel is used.
  void set_before_abort(std::function<void()> act) { before_abort_ = std::move(act); }
  /// Gives it up. Thread-safe.
  void abort() noexcept;
  /// The group has ended in good order; but other channels may still be split from this one, whose
  /// communicator stays until finish().
  void rest();
  /// The group has ended in good order.
  void finish();
  /// Whether NCCL has let go of everything. Thread-safe.
  bool is_gone() const;

 private:
  nccl_api::Result deregister(const KnownBuffer& buffer) const;
  /// Under its mutex.
  void forget_all();
  /// Calls visit(channel) for all that end with it. Under its mutex.
  template <class Visit>
  void for_each_inner(Visit visit) const;
  std::unique_ptr<NcclCommunicator> split(const NcclParts& part, int color);
  bool is_given_up() const {
    std::lock_guard lock(mutex_);
    return given_up_;
  }
  /// Whether its communicator may be split now.
  bool is_quiet() { return step() && in_flight_ == 0; }
  /// Waits until it may be split, and begins that. Throws as NcclCommunicator::complete().
  std::unique_ptr<NcclCommunicator> begin_split(const NcclParts& part, int color,
                                                const Patience& patience);
  void keep(std::unique_ptr<NcclCommunicator> made);

  const NcclChannelParts parts_;
  std::function<void()> before_abort_;
  bool is_pair_ = false;
  cuda_api::Stream own_stream_ = nullptr;
  std::map<int, std::shared_ptr<NcclChannel>> pairs_;  // by group rank
  std::shared_ptr<NcclChannel> column_;                // null: none
  std::shared_ptr<NcclChannel> twin_;
  std::shared_ptr<NcclChannel> parent_;  // from which it is split
  std::unique_ptr<NcclCommunicator> communicator_;
  std::mutex step_mutex_;     // groups that are made ask their parent, too
  mutable std::mutex mutex_;  // guards it against abort(): NCCL frees what is aborted
  bool given_up_ = false;
  // Kept when the communicator is given up, too: NCCL may be about to write to them.
  std::vector<std::shared_ptr<KnownBuffer>> known_;
  std::atomic<bool> was_ready_{false};
  std::atomic<int> in_flight_{0};
  std::atomic<std::uint64_t> splits_{0};
};

}  // namespace hymn
