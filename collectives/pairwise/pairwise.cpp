#include "collectives/pairwise/pairwise.hpp"

namespace hymn {

void add_pairwise_algorithms(Algorithms& algorithms, const AlgorithmModel& model,
                             const std::shared_ptr<MessagePort>& port, GroupShape shape) {
  algorithms.push_back(make_reduce_pairwise(model, port, shape));
  algorithms.push_back(make_move_pairwise(model, port, shape));
  algorithms.push_back(make_barrier_pairwise(model, port, shape));
  algorithms.push_back(make_send_recv(model, port));
}

}  // namespace hymn
