// How threads of a simulation start and end.
#pragma once

#include <pthread.h>

#include <functional>

namespace hymn::sim {

class Scheduler;

/// The first one, which runs when it is handed the baton.
pthread_t start_first_thread(Scheduler& scheduler, std::function<void()> run);

}  // namespace hymn::sim
