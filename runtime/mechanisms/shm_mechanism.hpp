// Shared memory as a mechanism: gives the members of a group on one host a region, and the
// algorithms over it.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/log.hpp"
#include "collectives/shm/areas.hpp"
#include "p2p/shm/channel.hpp"
#include "runtime/mechanisms/mechanism.hpp"

namespace hymn {

/// Where regions come from: the operating system for ranks that are processes, this process for
/// ranks that are threads. Groups are told apart by uid.
class RegionSource {
 public:
  virtual ~RegionSource() = default;
  /// First, by every member: what the maker needs to reach it.
  virtual Bytes open_listener(std::uint64_t /*uid*/) { return {}; }
  /// By the lowest member on a host: what the others need to find the region. Throws ResourceError.
  virtual Bytes make(std::uint64_t uid, const RegionPlan& plan, int members) = 0;
  /// By the lowest member, before it joins, with what open_listener() gave on each member here.
  virtual void pass_descriptors(std::uint64_t /*uid*/, std::span<const Bytes> /*listeners*/) {}
  /// By every member. Waits for the maker for up to `patience`. Throws ResourceError.
  virtual std::unique_ptr<SharedRegion> join(std::uint64_t uid, std::span<const std::byte> ticket,
                                             const RegionPlan& plan, int members, int me,
                                             Duration patience) = 0;
  /// All members have joined, or it has come to nothing.
  virtual void settled(std::uint64_t /*uid*/) {}
  virtual void opened(const std::shared_ptr<ShmChannel>&) {}
};

/// What it leaves to those that come after it, where all members that share a host share memory.
struct HostMemory {
  std::shared_ptr<ShmChannel> channel{};  ///< null: this rank is alone on its host
  ShmAreas areas{};                       ///< of the channel
  std::vector<int> host_of{};  ///< by group rank: index of the host in the world's layout
};

class ShmMechanism final : public Mechanism {
 public:
  ShmMechanism(std::unique_ptr<RegionSource> source, Logger logger);

  void placed(const JobMap& job) override;
  Bytes offer(const Membership& membership, const GroupOptions& options) override;
  Bytes answer(const Membership& membership, std::span<const Word> offers,
               Duration patience) override;
  void open(NewGroup& group, std::span<const Word> offers, std::span<const Word> answers) override;
  void close(const Membership& membership, bool clean) override;

 private:
  /// The members of a group that are on this host.
  struct Neighbours {
    std::vector<int> group_ranks;
    int me = 0;            ///< this rank's place among them
    bool are_all = false;  ///< members of the group
    ShmAreas areas() const {
      return ShmAreas::for_members(static_cast<int>(group_ranks.size()), !are_all);
    }
  };
  Neighbours neighbours_in(const Membership& membership) const;
  bool share_cores(const Membership& membership, const Neighbours& here) const;
  /// Throws ResourceError.
  void join(const Membership& membership, const Neighbours& here, std::span<const Word> offers,
            const Bytes& ticket, Duration patience);

  std::unique_ptr<RegionSource> source_;
  Logger logger_;
  int host_ = 0;
  int me_ = 0;                                       ///< rank in the world
  std::unordered_map<int, CpuSet> cores_of_rank_{};  ///< of those on this host
  std::mutex mutex_;
  std::map<std::uint64_t, std::unique_ptr<SharedRegion>> joined_;  ///< until the group is open
};

}  // namespace hymn
