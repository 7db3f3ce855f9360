// The smallest user of hymn in C++: sums the numbers of all ranks.
#include <cstdio>
#include <hymn/hymn.hpp>

int main() {
  hymn::World world;
  int value = world.rank() + 1;
  world.group().all_reduce(hymn::view_of(value));
  std::printf("rank %d of %d: sum %d\n", world.rank(), world.size(), value);
}
