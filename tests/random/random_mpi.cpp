// Random programs as jobs of mpirun, and of hymn run: see job.hpp.
#include <optional>
#include <stdexcept>

#include "tests/random/job.hpp"

int main(int argc, char** argv) {
  using namespace hymn::test;
  return run_random_job(argc, argv, {RandomJob::Kind::mpi, RandomJob::Kind::run},
                        [](const RandomJob& job, const ActMain& act) {
                          std::vector<hymn::World> worlds;
                          for (std::size_t i = 0; i < job.worlds; ++i) worlds.emplace_back();
                          if (worlds.front().size() != job.ranks)
                            throw std::runtime_error("run it so: " + job.command());
                          std::vector<hymn::World*> pointers;
                          for (hymn::World& world : worlds) pointers.push_back(&world);
                          act(pointers);
                        });
}
