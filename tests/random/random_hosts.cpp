// Random programs with ranks as threads that pretend to be on several hosts: see job.hpp.
#include "tests/random/job.hpp"
#include "tests/support/hosts.hpp"

int main(int argc, char** argv) {
  using namespace hymn::test;
  return run_random_job(argc, argv, {RandomJob::Kind::hosts},
                        [](const RandomJob& job, const ActMain& act) {
                          run_on_hosts(job.layout, [&](hymn::World& world) {
                            hymn::World* const worlds[] = {&world};
                            act(worlds);
                          });
                        });
}
