// What is initialised once, by whoever comes first: others wait for that one, who may have lost its
// turn meanwhile.

#include <pthread.h>

#include "simulation/real_calls.hpp"
#include "simulation/scheduler.hpp"

namespace hymn::sim {
namespace {

void begin(SimulatedThread& self, const void* what) {
  auto& at_it = self.scheduler->initialising();
  while (at_it.contains(what) && at_it[what] != &self) self.scheduler->block(what);
  at_it[what] = &self;
}

void end(SimulatedThread& self, const void* what) {
  self.scheduler->initialising().erase(what);
  self.scheduler->wake(what, true);
}

}  // namespace
}  // namespace hymn::sim

using namespace hymn::sim;

extern "C" {

HYMN_STANDS_IN int pthread_once(pthread_once_t* what, void (*run)()) {
  SimulatedThread* const self = this_thread();
  if (self == nullptr) return real().once(what, run);
  struct Turn {
    SimulatedThread& self;
    const void* what;
    Turn(SimulatedThread& thread, const void* once) : self(thread), what(once) {
      begin(self, what);
    }
    ~Turn() { end(self, what); }
  } const turn(*self, what);
  return real().once(what, run);
}
}
