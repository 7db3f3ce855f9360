// What the collectives across hosts keep from call to call: the hosts, the slots and flags that the
// members on one host share, and the messages that leaders have in flight.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "collectives/algorithm.hpp"
#include "collectives/hierarchical/host_map.hpp"
#include "p2p/message_port.hpp"
#include "p2p/shm/channel.hpp"

namespace hymn {

/// Which areas it has in a region: indices into its plan. The large slots are reserved when they
/// are first used, and so stand behind all that are there from the beginning.
struct HierarchyAreas {
  int flags = -1;
  int small = -1;
  int large = -1;

  void add_first(RegionPlan& plan);
  void add_large(RegionPlan& plan);
};

/// What it is made from. The channel's members are those on this host; one who is alone there has
/// a channel of its own.
struct HierarchyParts {
  std::shared_ptr<ShmChannel> channel;
  HierarchyAreas areas;
  std::vector<int> host_of;  ///< by group rank
  std::shared_ptr<MessagePort> port;
  GroupShape shape;
};

/// Each member has a ring of slots, of two areas: what it shows of its input is staged in one, and
/// what it has received or folded as a leader is laid out in the other. Pieces are numbered on over
/// all calls, alike on all members of the group: piece p uses slot p % slots, and is led by leader
/// p % leaders on every host. All flags are numbers of pieces, and only grow:
///
///   staged  this member's input up to that piece lies in its slots, where it has to give any
///   ready   the result of what this member leads lies there up to that piece
///   done    this member needs nothing of all pieces up to that one any more
///
/// so a slot may be used for piece p when all members are done with piece p - slots.
class Hierarchy {
 public:
  static constexpr std::size_t slots = 8;
  static constexpr std::size_t small_bytes = 4096;  ///< of a slot that is always there
  static constexpr std::size_t large_bytes = 131072;
  /// Whether a slot holds an element of each rank's block; of numbers that is alike for all.
  static Verdict has_room_for_blocks(int ranks, std::size_t element_bytes = 0);
  /// Whether what each host comes to, host by host, is in the order of the ranks.
  static Verdict can_scan(bool in_rank_order);

  /// On lines of their own: all but the last are written often, and read by others.
  struct Flags {
    alignas(128) std::atomic<std::uint64_t> staged;
    alignas(128) std::atomic<std::uint64_t> ready;
    alignas(128) std::atomic<std::uint64_t> done;
    alignas(128) std::atomic<std::uint64_t> agreed;  ///< bytes of a large slot + 1; 0: not yet
    /// What this member's call asks for, and its own factor of premul_sum.
    struct Label {
      std::uint64_t call;
      double factor;
    } labels[slots];  ///< of pieces that are staged, or whose result is ready
  };

  explicit Hierarchy(HierarchyParts parts);

  ShmChannel& channel() const { return *parts_.channel; }
  const HostMap& map() const { return map_; }
  MessagePort& port() const { return *parts_.port; }
  const GroupShape& shape() const { return parts_.shape; }

  // Members of this host are named by their index there.
  bool is_leader(int member, std::uint64_t piece) const { return member == leader_of(piece); }
  int leader_of(std::uint64_t piece) const {
    return static_cast<int>(piece % static_cast<std::uint64_t>(map_.leaders()));
  }
  /// The leader of a piece on another host, as group rank.
  int remote_leader(int host, std::uint64_t piece) const {
    return map_.leader(host, leader_of(piece));
  }
  Flags& flags(int member) const { return *parts_.channel->at<Flags>(member, parts_.areas.flags); }

  /// The slots of one call: all small, or all large.
  struct Slots {
    bool large = false;
    std::size_t bytes = small_bytes;
  };
  std::byte* staged(Slots kind, int member, std::uint64_t piece) const {
    return slot(kind, member, piece % slots);
  }
  std::byte* laid_out(Slots kind, int member, std::uint64_t piece) const {
    return slot(kind, member, slots + piece % slots);
  }

  /// Whether nobody here needs any more what lies in the slots of this piece.
  bool may_use_slot(std::uint64_t piece);

  /// True once all members of the group know how large a large slot is; called by all in the same
  /// call until then. large_slots() then has at least a small one's bytes, or is the small ones.
  bool agree_on_slots(std::uint64_t order);
  Slots large_slots() const { return large_; }

  /// A leader's own memory and messages for one piece.
  struct Flight {
    std::byte* partial = nullptr;   ///< what the members on this host come to
    std::byte* incoming = nullptr;  ///< what other hosts have sent, one behind the other
    std::unique_ptr<Transfers> gather;
    std::unique_ptr<Transfers> spread;
  };
  Flight& flight(std::uint64_t piece) { return flights_[piece % slots]; }
  /// Room of so many bytes in every flight. Nothing may be in flight.
  void make_room(std::size_t partial, std::size_t incoming);
  /// What must be kept when a call is given up; null: nothing.
  static std::unique_ptr<AbandonedOperation> abandon(const std::shared_ptr<Hierarchy>& hierarchy,
                                                     const std::string& reason);

  std::uint64_t next_piece = 0;  ///< number of the first one of the next call
  // Lists for one fold, of as many as there are members here, or hosts.
  std::vector<const void*> inputs;
  std::vector<double> factors;

 private:
  std::byte* slot(Slots kind, int member, std::size_t index) const {
    const int area = kind.large ? parts_.areas.large : parts_.areas.small;
    return parts_.channel->at<std::byte>(member, area) + index * kind.bytes;
  }
  bool exchange_sizes(std::uint64_t order, std::size_t bytes);

  HierarchyParts parts_;
  HostMap map_;
  std::uint64_t least_done_ = 0;             // by all members here
  Slots large_{.large = false, .bytes = 0};  // no bytes: not agreed on
  std::vector<std::uint64_t> sizes_;         // of all hosts, while they are agreed on
  std::unique_ptr<Transfers> agreement_;
  std::array<Flight, slots> flights_;
  std::unique_ptr<std::byte[]> room_;
  std::size_t room_bytes_ = 0;
};

}  // namespace hymn
