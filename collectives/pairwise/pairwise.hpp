// Algorithms in which members exchange messages directly, each with each: they need nothing of a
// mechanism but messages, take every layout, and reduce in rank order.
//
// With p ranks and n bytes a rank sends and receives: moves, what its blocks hold; all_reduce,
// 2n(p-1)/p in two phases, or, up to 4 KB, n(p-1) in one; reduce_scatter, n(p-1)/p; barrier,
// ceil(log2 p) empty messages.
#pragma once

#include "collectives/algorithm.hpp"
#include "p2p/message_port.hpp"

namespace hymn {

// `model`: of such algorithms over what the port is (pairwise_models.hpp, shm_models.hpp).

/// broadcast, gather, scatter, all_gather, all_to_all.
std::unique_ptr<Algorithm> make_move_pairwise(const AlgorithmModel& model,
                                              std::shared_ptr<MessagePort> port, GroupShape shape);
/// all_reduce, reduce, reduce_scatter.
std::unique_ptr<Algorithm> make_reduce_pairwise(const AlgorithmModel& model,
                                                std::shared_ptr<MessagePort> port,
                                                GroupShape shape);
std::unique_ptr<Algorithm> make_barrier_pairwise(const AlgorithmModel& model,
                                                 std::shared_ptr<MessagePort> port,
                                                 GroupShape shape);
/// send, recv.
std::unique_ptr<Algorithm> make_send_recv(const AlgorithmModel& model,
                                          std::shared_ptr<MessagePort> port);

/// All of these.
void add_pairwise_algorithms(Algorithms& algorithms, const AlgorithmModel& model,
                             const std::shared_ptr<MessagePort>& port, GroupShape shape);

}  // namespace hymn
