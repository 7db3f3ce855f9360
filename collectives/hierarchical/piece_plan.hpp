// How one call is cut into pieces, and what of a piece crosses between which hosts: pure
// arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/hierarchical/host_map.hpp"
#include "hymn/request.hpp"

namespace hymn {

/// One step of messages between hosts. A message from host g to host h carries a part of the piece.
struct HostStep {
  bool used = false;
  int only_from = -1;   ///< a host; -1: from all
  int only_to = -1;     ///< likewise
  int not_to = -1;      ///< a host that has it all; -1: there is none
  bool onward = false;  ///< only to hosts behind

  bool has(int from, int to) const {
    return used && from != to && (only_from < 0 || only_from == from) &&
           (only_to < 0 || only_to == to) && not_to != to && (!onward || from < to);
  }
};

/// A call as pieces that fit into slots. A piece holds the same run of elements of every block; the
/// blocks stand in it in host order, so that what concerns the members on a host is one part.
///
/// Pieces cross in one or two steps: `gather` brings part h to host h, from those who have
/// something to it, and `spread` brings it from there to the others:
///
///   call            gather                    spread             parts
///   all_reduce      all to all                -                  each is the whole piece   (few)
///                   all to all                all to all         even                     (many)
///   reduce          all to the root's host    -                  whole                     (few)
///                   all to all                all to the root's  even                     (many)
///   broadcast       the root's host to all    -                  whole                     (few)
///                   the root's host to all    all but to root's  even                     (many)
///   reduce_scatter  all to all                -                  of the members there
///   all_gather      -                         all to all         of the members there
///   scan, exscan    each to those behind it   -                  whole
///   barrier         all to all                -                  whole, and empty
///
/// Even parts of a rooted call leave the root's host out: so its interface, which all must cross,
/// carries everything just once.
///
/// Few: little data, or two hosts, where the second form would send as much and take longer.
struct PiecePlan {
  /// Up to so many bytes, received from all other hosts together, one step with the whole is taken
  /// to be faster than two with parts.
  static constexpr std::uint32_t few_bytes = 32768;

  enum class Parts : unsigned char { whole, even, of_members };

  OpType type = OpType::barrier;
  HostStep gather{};
  HostStep spread{};
  Parts parts = Parts::whole;
  int partless = -1;         ///< host that even parts leave out; -1: none
  bool cuts_input = false;   ///< into a block for each member
  bool cuts_output = false;  ///< likewise
  int blocks = 1;            ///< in a piece
  std::size_t count = 0;     ///< elements of one block
  std::size_t each = 0;      ///< elements of one block in a piece
  std::size_t pieces = 0;

  /// Bytes of the whole, as it travels.
  static std::size_t bytes_of(const Request& request, const HostMap& map, std::size_t unit);
  /// `unit`: bytes of one element as it travels; pieces hold at most `slot_bytes`, room for at
  /// least one element of each block. `root`: group rank, or -1.
  static PiecePlan make(const Request& request, const HostMap& map, int root, std::size_t unit,
                        std::size_t slot_bytes);

  /// The elements of each block that a piece holds.
  Slice elements(std::size_t piece) const {
    const std::size_t offset = piece * each;
    return {offset, count - offset < each ? count - offset : each};
  }
  /// Elements of a piece.
  std::size_t length(std::size_t piece) const {
    return elements(piece).count * static_cast<std::size_t>(blocks);
  }
  /// The elements of a piece that are host `host`'s part.
  Slice part(std::size_t piece, int host, const HostMap& map) const;
  /// Whether a message that carries this part is sent at all.
  bool travels(Slice part) const { return part.count != 0 || parts == Parts::whole; }
};

}  // namespace hymn
