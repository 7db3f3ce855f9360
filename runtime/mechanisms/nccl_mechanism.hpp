// NCCL as a mechanism: gives groups whose ranks have a GPU each, or name one, a communicator of
// their own, and the algorithms over it, for buffers in the memory of these GPUs; and ranks that
// have a GPU the copies through memory of the host, for what NCCL has not, and for groups in which
// others have none.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/config.hpp"
#include "collectives/launch/launch_queue.hpp"
#include "collectives/nccl/channel.hpp"
#include "gpu/nccl_library.hpp"
#include "runtime/mechanisms/mechanism.hpp"
#include "runtime/mechanisms/nccl_gpus.hpp"

namespace hymn {

/// Where the mechanism finds NVIDIA's libraries; tests give doubles.
struct GpuLibraries {
  const GpuFunctions* gpus = nullptr;
  std::function<const NcclLibrary&()> nccl;  ///< called only where it is wanted: loading costs

  static GpuLibraries loaded() { return {&loaded_gpu_functions(), loaded_nccl}; }
};

class NcclMechanism final : public Mechanism {
 public:
  /// `path` and `defaults` are the world's, for groups that do not say otherwise.
  NcclMechanism(GpuLibraries libraries, PathPolicy path, const Config& config);
  ~NcclMechanism() override;

  /// The rank's own GPU, once ranks are placed; null: it has none.
  const RankGpu* own_gpu() const { return gpus_.own(); }
  /// The order of what goes there.
  const std::shared_ptr<LaunchQueue>& queue() const { return queue_; }

  /// Whether groups with these options reduce float16 and bfloat16 in float32.
  bool reduces_in_float32(const GroupOptions& options) const {
    return nccl_of(options).reduce_in_float32.value_or(false);
  }

  void placed(const JobMap& job) override;
  Bytes offer(const Membership& membership, const GroupOptions& options) override;
  void adjust(GroupLayout& layout, std::span<const Word> offers) const override;
  void open(NewGroup& group, std::span<const Word> offers, std::span<const Word> answers) override;
  void stand_by(const Membership& membership, const GroupOptions& options,
                const Patience& patience) override;
  /// Splits take their place between the collectives of the group that is split, on all ranks
  /// alike.
  bool serves_own_threads() const override { return world_init_ != NcclInit::eager; }
  void close(const Membership& membership, bool clean) override;
  void shut_down(WorldEnd end) override;

 private:
  NcclOptions nccl_of(const GroupOptions& options) const;
  NcclInit init_of(const GroupOptions& options) const {
    return nccl_of(options).init.value_or(NcclInit::lazy);
  }
  struct NcclOffer;
  /// What each member has told of its NCCL.
  static std::vector<Bytes> introductions(const std::vector<NcclOffer>& offers);
  static int most_on_one_gpu(const std::vector<NcclOffer>& offers);
  /// Why these members cannot use NCCL together; empty: they can.
  static std::string refusal_of(const std::vector<NcclOffer>& offers, std::span<const int> members);
  /// Whether any of them names a GPU; then nobody's communicator is split from the world's.
  static bool names_gpus(const std::vector<NcclOffer>& offers);
  /// The GPU of a group with these options; null: this rank has none. Throws UsageError.
  const RankGpu* gpu_of(const GroupOptions& options);
  /// What this rank offers of a GPU.
  void offer_gpu(NcclOffer& offer, const RankGpu& gpu, const GroupOptions& options);
  /// Throws ConfigError, the same on all members, where one cannot.
  static void require_casts(std::span<const int> members, const std::vector<NcclOffer>& offers);
  /// Throws AgreedUsageError, the same on all members, where the GPU that one names is not there.
  static void require_named(const std::vector<NcclOffer>& offers);
  void open_nccl(NewGroup& group, const std::vector<NcclOffer>& offers, const RankGpu& gpu);
  std::shared_ptr<NcclChannel> make_channel(const NewGroup& group, const RankGpu& gpu) const;
  void connect(const NewGroup& group, bool is_on_own_gpus,
               const std::shared_ptr<NcclChannel>& channel);
  /// Whether groups with these options are split from the world's group, if they are its ranks.
  bool is_split(const Membership& membership, const GroupOptions& options) const;
  /// Whether they are split from it when they are made, whoever their members are: all its ranks
  /// know.
  bool splits_early(const Membership& membership, const GroupOptions& options) const;

  GpuLibraries libraries_;
  PathPolicy path_;
  NcclOptions defaults_;
  bool high_priority_;
  bool nan_check_;
  RankGpus gpus_;
  const NcclLibrary* nccl_ = nullptr;  ///< null: not looked for yet
  std::shared_ptr<LaunchQueue> queue_;

  std::mutex mutex_;                    // guards what follows
  std::shared_ptr<NcclChannel> world_;  ///< of the group of all ranks
  /// When it was made; if eagerly, it is there for all to split. Stays as it is then.
  NcclInit world_init_ = NcclInit::lazy;
  bool world_rests_ = false;  ///< its group has ended in good order
  std::map<std::uint64_t, std::shared_ptr<NcclChannel>> open_;  ///< by uid
  std::vector<std::shared_ptr<NcclChannel>> ending_;
};

}  // namespace hymn
