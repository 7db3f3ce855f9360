// The loop that every driver of the comparison runs: waits for its turn, times a block of calls,
// verifies the result, answers. A driver brings its calls and hands them to drive().
#pragma once

#include <time.h>

#include "bench/compare/data.h"

// The arguments of one call: float32, sum. in == out where the call is in place.
struct Call {
  void* library;  // Library::self
  void* in;
  void* out;
  size_t count;  // elements of the buffer, or of one rank's block of the larger buffer
  int rank;
  int ranks;
  int root;
};

typedef void (*CallFunction)(const struct Call* call);

// What is measured. send_recv sends to the rank beside (0 and 1, 2 and 3, …) and receives from it;
// the even rank sends first.
struct Library {
  void* self;
  const char* version;
  CallFunction calls[collective_count];  // NULL where there is none
};

static inline double now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

// Microseconds for one row of calls, after all inputs were written and all ranks have met.
static inline double time_row(const struct Driver* driver, struct Buffers* buffers,
                              const struct Library* library, size_t calls) {
  const CallFunction function = library->calls[buffers->command.collective];
  struct Call call = {library->self, NULL,          NULL, buffers->shape.count,
                      driver->rank,  driver->ranks, 0};
  const int in_place = is_in_place(&buffers->command);
  const int alter = buffers->alter;
  const int rotate = buffers->command.rotate_root != 0;
  buffers->first = ++buffers->last;
  for (size_t i = 0; i < buffers->buffers && i < calls; ++i) write_input(driver, buffers, i);
  if (buffers->command.cold) sweep_caches(driver, buffers);
  library->calls[collective_barrier](&call);
  meet(driver);
  size_t buffer = 0;
  const double begin = now_us();
  for (size_t i = 0; i < calls; ++i) {
    buffer = i < buffers->buffers ? i : 0;
    call.in = buffers->in + buffer * buffers->in_step;
    call.out = in_place ? call.in : buffers->out + buffer * buffers->out_step;
    if (alter) alter_input(driver, buffers, call.in, ++buffers->last);
    buffers->last_root = call.root;
    function(&call);
    if (rotate) call.root = call.root + 1 < call.ranks ? call.root + 1 : 0;
  }
  const double end = now_us();
  buffers->last_used = buffer;
  return end - begin;
}

static inline double time_calls(const struct Driver* driver, struct Buffers* buffers,
                                const struct Library* library, uint64_t calls) {
  double us = 0;
  for (uint64_t left = calls; left > 0;) {
    const size_t row = left < buffers->calls_in_a_row ? (size_t)left : buffers->calls_in_a_row;
    us += time_row(driver, buffers, library, row);
    left -= row;
  }
  return us / (double)calls;
}

static inline void carry_out(const struct Driver* driver, struct Buffers* buffers,
                             const struct Library* library, const struct Command* command) {
  if (command->collective >= collective_count || library->calls[command->collective] == NULL) {
    send_answer(driver, answer_not_offered, 0, 0, NULL);
    return;
  }
  prepare(driver, buffers, command);
  // While the others worked, caches and waiting have forgotten this job.
  time_calls(driver, buffers, library, 1 + command->calls / 8);
  double us = time_calls(driver, buffers, library, command->calls);
  if (command->collective == collective_send_recv) us /= 2;  // there and back
  buffers->command.check_all = command->check_all;
  char text[96] = "";
  const int right = is_right(driver, buffers, text, sizeof text);
  buffers->command.check_all = 0;
  const uint64_t row =
      command->calls < buffers->calls_in_a_row ? command->calls : buffers->calls_in_a_row;
  send_answer(driver, right ? answer_good : answer_wrong_result, us, (uint32_t)row, text);
}

// Serves compare.py until it hangs up. argv is what job.py gives: settings, pipes, binding.
static inline void drive(char** argv, int rank, int ranks, const struct Library* library) {
  struct Driver driver;
  if (!connect_driver(&driver, argv[1], argv[2], rank, ranks)) return;
  struct Buffers buffers;
  memset(&buffers, 0, sizeof buffers);
  send_answer(&driver, answer_good, 0, 0, library->version);
  for (struct Command command; next_command(&driver, &command);) {
    // A peer that hangs must not outlive compare.py.
    alarm(driver.limit_s);
    carry_out(&driver, &buffers, library, &command);
    alarm(0);
  }
  if (buffers.memory != NULL) munmap(buffers.memory, buffers.memory_bytes);
  if (buffers.sweep != NULL) munmap(buffers.sweep, driver.cache_bytes);
}
