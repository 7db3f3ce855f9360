#include "collectives/mpi/mpi_collective.hpp"

namespace hymn {

void add_mpi_algorithms(Algorithms& algorithms, const std::shared_ptr<MpiChannel>& channel,
                        GroupShape shape) {
  algorithms.push_back(make_all_reduce_mpi(channel, shape));
  algorithms.push_back(make_reduce_mpi(channel, shape));
  algorithms.push_back(make_reduce_scatter_mpi(channel, shape));
  algorithms.push_back(make_broadcast_mpi(channel, shape));
  algorithms.push_back(make_gather_mpi(channel, shape));
  algorithms.push_back(make_scatter_mpi(channel, shape));
  algorithms.push_back(make_all_gather_mpi(channel, shape));
  algorithms.push_back(make_all_to_all_mpi(channel, shape));
  algorithms.push_back(make_barrier_mpi(channel, shape));
}

}  // namespace hymn
