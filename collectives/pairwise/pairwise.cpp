#include "collectives/pairwise/pairwise.hpp"

namespace hymn {

void add_pairwise_algorithms(Algorithms& algorithms, const std::shared_ptr<MessagePort>& port,
                             GroupShape shape) {
  algorithms.push_back(make_reduce_pairwise(port, shape));
  algorithms.push_back(make_move_pairwise(port, shape));
  algorithms.push_back(make_barrier_pairwise(port, shape));
  algorithms.push_back(make_send_recv(port));
}

}  // namespace hymn
