// Peer memory as a mechanism: gives groups, whose ranks have GPUs that reach each other's memory
// inside each host, staging buffers there, and kernels that work on them; those on several hosts
// besides what carries data between these. Only where the path setting names it, HYMN_P2P_COMPAT
// asks for it, or it has been measured on these machines.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "collectives/cuda/peer_channel.hpp"
#include "collectives/cuda/peer_places.hpp"
#include "collectives/hierarchical/host_map.hpp"
#include "runtime/mechanisms/nccl_mechanism.hpp"

namespace hymn {

class PeerMechanism final : public Mechanism {
 public:
  /// `nccl` comes before it and outlives it: it has the rank's GPU, and the order of what goes
  /// there. `path` is the world's, for groups that do not say otherwise. Messages between hosts
  /// travel through the group's exchange where no other mechanism carries them.
  PeerMechanism(const NcclMechanism& nccl, PathPolicy path, P2pCompat compat)
      : nccl_(nccl), path_(std::move(path)), compat_(compat) {}

  void placed(const JobMap& job) override;
  void measured(const std::shared_ptr<const TuningTable>& table) override { tuning_ = table; }
  Bytes offer(const Membership& membership, const GroupOptions& options) override;
  Bytes answer(const Membership& membership, std::span<const Word> offers,
               Duration patience) override;
  void open(NewGroup& group, std::span<const Word> offers, std::span<const Word> answers) override;
  void close(const Membership& membership, bool clean) override;
  void shut_down(WorldEnd end) override;
  /// Peers may read a staging buffer until they have ended, too. All ranks have the same setting.
  bool ends_together() const override;

 private:
  struct PeerOffer;
  /// Where this rank is, once ranks are placed.
  struct Home {
    int rank = -1;
    int host = 0;         ///< in the world's layout
    int gpu_sharers = 0;  ///< ranks that use its GPU, it counted
    std::string host_name;
    std::set<int> on_host;   ///< ranks of this host
    std::set<int> with_gpu;  ///< those that have one
  };
  /// What some ranks have to work with. Groups of the same ranks, in the same order, use it one
  /// after the other: to free it is dear, and others may still be reading.
  struct Reach {
    std::uint64_t made_for = 0;  ///< the uid of the first of these groups
    std::vector<int> ranks;      ///< global
    std::shared_ptr<PeerChannel> channel;
  };
  /// Whether groups of so many ranks, all on one host or not, get staging buffers with this
  /// setting.
  bool is_wanted(const PathPolicy& path, std::size_t ranks, bool one_host) const;
  /// The members on this rank's host, by ascending rank.
  std::vector<int> members_here(const Membership& membership) const;
  /// Why this rank has nothing to offer to such a group; empty: it has.
  std::string why_not(const Membership& membership, const GroupOptions& options) const;
  /// Of those that no group uses, one that such a group could use; it is set aside for it. Under
  /// the mutex.
  const Reach* set_aside(const Membership& membership);
  /// Null: there is none. Under the mutex.
  std::shared_ptr<IpcStagingBuffer> take_spare();
  /// What was set aside for that group, if there is any, may be used by others. Under the mutex.
  void put_back(std::uint64_t uid);
  /// Whether all have set the same aside: then it is the group's.
  bool takes_up(const Membership& membership, const std::vector<PeerOffer>& offers);
  /// Opens what was offered, and tries it. Returns why it cannot be used; empty: it can.
  std::string connect(const Membership& membership, const std::vector<PeerOffer>& offers,
                      Duration patience);
  /// The candidates of a group on several hosts. `channel` null: they can do nothing, for that
  /// reason.
  void add_hierarchical(NewGroup& group, const HostMap& hosts,
                        const std::shared_ptr<PeerChannel>& channel,
                        const std::string& reason) const;

  const NcclMechanism& nccl_;
  const PathPolicy path_;
  const P2pCompat compat_;
  const std::shared_ptr<PeerPlaces> places_ = std::make_shared<PeerPlaces>();
  std::shared_ptr<const TuningTable> tuning_;
  Home home_;
  std::mutex mutex_;                                                    // guards what follows
  std::map<std::uint64_t, std::shared_ptr<IpcStagingBuffer>> offered_;  ///< by uid
  std::vector<std::shared_ptr<IpcStagingBuffer>> spare_;                ///< nobody has opened them
  std::map<std::uint64_t, Reach> set_aside_;                            ///< by uid
  std::map<std::uint64_t, Reach> open_;                                 ///< by uid
  std::vector<Reach> idle_;  ///< of groups that have ended in good order
  std::vector<Reach> kept_;  ///< of others, to the end of the world
};

/// NCCL and peer memory, for the end of a world's list.
void add_gpu_mechanisms(std::vector<std::unique_ptr<Mechanism>>& mechanisms, GpuLibraries libraries,
                        const PathPolicy& path, const Config& config);

}  // namespace hymn
