// Ranks whose settings differ must not start: they would choose differently, and hang. All of them
// are told.
#include <cstdlib>

#include "tests/mpi/check.hpp"

namespace hymn::test {
namespace {

/// One rank has another value of this variable than the others.
void check_difference(int rank, int odd_one, const char* name, const char* here,
                      const char* elsewhere) {
  ::setenv(name, rank == odd_one ? here : elsewhere, 1);
  CHECK_THROWS(ConfigError, World(), name, std::string("'") + here + "'",
               std::string("'") + elsewhere + "'", "on rank",
               "remedy: start all ranks with the same");
  ::unsetenv(name);
}

/// A value that is wrong on one rank, which only its host's lowest rank can find, is told to all.
void check_common_fault(int rank, int odd_one, const char* name, const char* value,
                        const char* text) {
  if (rank == odd_one) ::setenv(name, value, 1);
  CHECK_THROWS(ConfigError, World(), text, "remedy");
  ::unsetenv(name);
}

void run() {
  int rank = -1;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (const int odd_one : {0, size - 1}) {
    check_difference(rank, odd_one, "HYMN_PATH", "mpi_p2p", "");
    check_difference(rank, odd_one, "HYMN_PATH", "^mpi", "mpi,exchange");
    check_difference(rank, odd_one, "HYMN_CHUNK_LIMIT", "7", "8");
    check_difference(rank, odd_one, "HYMN_ALGO", "all_reduce_mpi", "^all_reduce_mpi");
    check_difference(rank, odd_one, "HYMN_REPRODUCIBLE", "size", "placement");
    // All ranks are on one host, which can be only one machine.
    check_difference(rank, odd_one, "HYMN_TOPOLOGY_FILE", "one.xml", "two.xml");
    check_common_fault(rank, odd_one, "HYMN_GPU", "200", "HYMN_GPU is 200 on rank");
  }
  check_common_fault(rank, rank, "HYMN_TOPOLOGY_FILE", "/nowhere/box.xml", "/nowhere/box.xml");
  // The option counts like the variable.
  CHECK_THROWS(ConfigError, World({.path = rank == 0 ? "mpi" : "exchange"}), "'mpi'", "'exchange'");
  // What concerns one rank alone may differ.
  ::setenv("HYMN_LOG_LEVEL", rank == 0 ? "error" : "warning", 1);
  ::setenv("HYMN_TIMEOUT", rank == 0 ? "50" : "60", 1);
  World world;
  std::int32_t one = 1;
  world.group().all_reduce(view_of(one));
  CHECK(one == size);
}

}  // namespace
}  // namespace hymn::test

int main() {
  MPI_Init(nullptr, nullptr);
  hymn::test::run();
  MPI_Finalize();
  return 0;
}
