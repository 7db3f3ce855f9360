// mpirun -n 4 all_reduce: every rank gets the sum of what all ranks have.
#include <cstdio>
#include <hymn/hymn.hpp>
#include <vector>

int main() {
  hymn::World world;  // the ranks of this job
  std::vector<double> values(1000, world.rank() + 1);
  world.group().all_reduce(values);
  std::printf("rank %d of %d has %g\n", world.rank(), world.size(), values.front());
}
