// One member's part of a collective on memory that all members have mapped.
#pragma once

#include "collectives/operation.hpp"
#include "collectives/reduce/reducer.hpp"
#include "collectives/shm/direct_board.hpp"

namespace hymn {

/// How much the collective is about, told by what all members know; 0 where it has no direct form
/// whatever their buffers.
std::size_t direct_bytes(const Request& request);
/// Whether no member can complete the collective before it has heard of every other one, by
/// whatever algorithm.
bool everybody_hears_everybody(const Request& request, int members);

/// What this member shows for a call.
DirectCall direct_call(const Call& call, int me);

/// Does some more of the part, in pieces, touching others' memory during each of them only; true
/// when it is done. `pieces_done` is 0 at first, `reducer` for reductions.
bool do_direct_part(const DirectBoard& board, const Call& call, int me, int members,
                    const Reducer* reducer, std::size_t& pieces_done);

}  // namespace hymn
