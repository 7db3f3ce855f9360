// Random programs with ranks as threads: see job.hpp.
#include "tests/random/job.hpp"

int main(int argc, char** argv) {
  using namespace hymn::test;
  return run_random_job(argc, argv, {RandomJob::Kind::threads},
                        [](const RandomJob& job, const ActMain& act) {
                          hymn::run_ranks(job.ranks, [&](hymn::World& world) {
                            hymn::World* const worlds[] = {&world};
                            act(worlds);
                          });
                        });
}
