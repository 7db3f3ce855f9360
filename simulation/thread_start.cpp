#include "simulation/thread_start.hpp"

#include <memory>
#include <system_error>

#include "simulation/real_calls.hpp"
#include "simulation/scheduler.hpp"

namespace hymn::sim {
namespace {

struct Start {
  SimulatedThread* thread;
  void* (*run)(void*);
  void* argument;
};

// A thread may take locks until its thread_local objects are gone, and they are before this is
// called.
pthread_key_t key_of_end() {
  static const pthread_key_t key = [] {
    pthread_key_t made{};
    const int failed = pthread_key_create(&made, [](void* thread) {
      if (this_thread() == thread) static_cast<SimulatedThread*>(thread)->scheduler->leave();
    });
    if (failed != 0) throw std::system_error(failed, std::generic_category(), "pthread_key_create");
    // Nobody hands a baton to a child process.
    pthread_atfork(nullptr, nullptr, [] { this_thread() = nullptr; });
    return made;
  }();
  return key;
}

void* run_simulated(void* given) {
  const std::unique_ptr<Start> start(static_cast<Start*>(given));
  SimulatedThread& thread = *start->thread;
  pthread_setspecific(key_of_end(), &thread);
  thread.scheduler->enter(thread);
  try {
    return start->run(start->argument);
  } catch (const RankDied&) {  // on a thread of the program's own
    return nullptr;
  }
}

int start_thread(Start start, pthread_t* handle, const pthread_attr_t* attributes) {
  auto given = std::make_unique<Start>(start);
  const int failed = real().create(handle, attributes, run_simulated, given.get());
  if (failed == 0) {
    given.release();
    start.thread->handle = *handle;
  }
  return failed;
}

}  // namespace

pthread_t start_first_thread(Scheduler& scheduler, std::function<void()> run) {
  key_of_end();
  auto given = std::make_unique<std::function<void()>>(std::move(run));
  const auto call = [](void* function) -> void* {
    const std::unique_ptr<std::function<void()>> owned(
        static_cast<std::function<void()>*>(function));
    (*owned)();
    return nullptr;
  };
  pthread_t handle{};
  const int failed = start_thread({&scheduler.add_thread(-1), call, given.get()}, &handle, nullptr);
  if (failed != 0) throw std::system_error(failed, std::generic_category(), "pthread_create");
  given.release();
  return handle;
}

}  // namespace hymn::sim

using namespace hymn::sim;

extern "C" {

HYMN_STANDS_IN int pthread_create(pthread_t* handle, const pthread_attr_t* attributes,
                                  void* (*run)(void*), void* argument) {
  SimulatedThread* const self = this_thread();
  if (self == nullptr) return real().create(handle, attributes, run, argument);
  SimulatedThread& thread = self->scheduler->add_thread(self->rank);
  const int failed = start_thread({&thread, run, argument}, handle, attributes);
  if (failed != 0)
    self->scheduler->forget_thread(thread);
  else
    self->scheduler->give_turn(Point::shown);
  return failed;
}

HYMN_STANDS_IN int pthread_join(pthread_t handle, void** result) {
  if (SimulatedThread* const self = this_thread()) {
    const SimulatedThread* const other = self->scheduler->find_thread(handle);
    while (other != nullptr && other->state != SimulatedThread::State::ended)
      self->scheduler->block(other);
  }
  return real().join(handle, result);
}
}
