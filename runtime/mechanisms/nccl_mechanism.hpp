// NCCL as a mechanism: gives groups whose ranks have a GPU each a communicator of their own, and
// the algorithms over it, for buffers in the memory of these GPUs; and ranks that have a GPU the
// copies through memory of the host, for what NCCL has not, and for groups in which others have
// none.
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
#include "collectives/staged/staged.hpp"
#include "gpu/gpu_functions.hpp"
#include "gpu/nccl_library.hpp"
#include "runtime/mechanisms/mechanism.hpp"

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

  /// The rank's GPU, once ranks are placed; null: it has none.
  const std::shared_ptr<GpuDevice>& gpu() const { return own_.gpu; }
  /// With memory of the host for its copies; null likewise.
  const std::shared_ptr<StagingArea>& staging() const { return own_.staging; }
  /// The order of what goes there.
  const std::shared_ptr<LaunchQueue>& queue() const { return queue_; }

  /// Whether groups with these options reduce float16 and bfloat16 in float32.
  bool reduces_in_float32(const GroupOptions& options) const {
    return nccl_of(options).reduce_in_float32.value_or(false);
  }

  void placed(const JobMap& job) override;
  Bytes offer(const Membership& membership, const GroupOptions& options) override;
  void open(NewGroup& group, std::span<const Word> offers, std::span<const Word> answers) override;
  void stand_by(const Membership& membership, const GroupOptions& options,
                const Patience& patience) override;
  /// Splits take their place between the collectives of the group that is split, on all ranks
  /// alike.
  bool serves_own_threads() const override { return world_init_ != NcclInit::eager; }
  void close(const Membership& membership, bool clean) override;
  void shut_down(WorldEnd end) override;

 private:
  /// The rank's GPU and what works there, once ranks are placed.
  struct OwnGpu {
    std::string name;                ///< the same exactly for ranks that share a GPU
    std::shared_ptr<GpuDevice> gpu;  ///< null: this rank has none
    std::shared_ptr<StagingArea> staging;
    std::shared_ptr<cuda::DeviceNan> nan;
    std::shared_ptr<cuda::GpuKernels> casts;  ///< for reductions in float32
  };
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
  void load_nan() const noexcept;
  /// Why this rank cannot reduce in float32; empty: it can.
  std::string find_casts() noexcept;
  /// Throws ConfigError, the same on all members, where one cannot.
  static void require_casts(std::span<const int> members, const std::vector<NcclOffer>& offers);
  void open_nccl(NewGroup& group, const std::vector<NcclOffer>& offers);
  std::shared_ptr<NcclChannel> make_channel(const NewGroup& group) const;
  void connect(const NewGroup& group, const std::shared_ptr<NcclChannel>& channel);
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
  OwnGpu own_;
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
