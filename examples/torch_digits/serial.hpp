// The same training in one process, to compare with.
#pragma once

#include <vector>

#include "examples/torch_digits/net.hpp"
#include "examples/torch_digits/plan.hpp"

namespace digits {

/// How one process computes what the ranks did in a step. The first way has the same bits where the
/// ranks' sums have this order, too: at the level `placement` of docs/reproducibility.md, between
/// equal processors. The second never has: sums over the samples of a batch are rounded in another
/// order than sums over ranks of sums over parts of it.
enum class Serial {
  rank_by_rank,  ///< each rank's batch by itself; gradients are added in the order of the ranks
  as_one_batch,  ///< all samples in one pass
};

/// Trains the net by all steps of these stretches.
void train_serially(Serial way, Net& net, const Pictures& pictures,
                    const std::vector<Stretch>& stretches, const Settings& settings);

}  // namespace digits
