// The buffers of a block of calls, what is in them, and whether a result is right. The same for
// every driver, so that all pay alike.
#pragma once

#include "bench/compare/protocol.h"

// The elements that a rank gives to and gets from a call; `count` is what its argument says.
struct Shape {
  size_t count;
  size_t in;
  size_t out;
};

// All inputs are whole numbers below 4096, so that sums of floats are exact in any order.
//
// A block of warm calls with small buffers is timed as a whole. There only one element in 64 (every
// 256 bytes) changes before each call, and the others keep the value of the first.
enum { value_bits = 12, altered_step = 64 };

struct Buffers {
  struct Command command;
  struct Shape shape;
  char* memory;
  size_t memory_bytes;
  size_t buffers;         // this many inputs and outputs, used in turn
  size_t calls_in_a_row;  // timed as a whole, after all inputs were written
  size_t in_step;         // bytes from one input to the next
  size_t out_step;
  char* in;
  char* out;
  int alter;         // change inputs between the calls of a row
  uint64_t first;    // the stamp of the inputs at the beginning of the row
  uint64_t last;     // and of what was altered before the last call
  int last_root;     // the root of that call
  size_t last_used;  // which buffer that call used
  char* sweep;       // as large as the last-level cache needs to forget
};

static inline struct Shape shape_of(uint32_t collective, uint64_t bytes, int ranks) {
  const size_t all = (size_t)bytes / sizeof(float) > 0 ? (size_t)bytes / sizeof(float) : 1;
  const size_t n = (size_t)ranks;
  const size_t block = all / n > 0 ? all / n : 1;
  struct Shape shape = {all, all, all};
  switch (collective) {
    case collective_gather:
    case collective_all_gather:
      shape.count = shape.in = block;
      shape.out = block * n;
      break;
    case collective_scatter:
    case collective_reduce_scatter:
      shape.count = shape.out = block;
      shape.in = block * n;
      break;
    case collective_all_to_all:
      shape.count = block;
      shape.in = shape.out = block * n;
      break;
    case collective_barrier:
      shape.count = shape.in = shape.out = 0;
      break;
    default:
      break;
  }
  return shape;
}

// What stays in place needs one buffer for both.
static inline int is_in_place(const struct Command* command) {
  return command->in_place || command->collective == collective_broadcast;
}

// Neither these nor their sums over ranks come again at the next index, the next stamp, or the same
// place of another block: the second factor is 2^32 divided by the golden ratio, whose multiples
// never come close to each other. Values of few bits would not do: those of 16 ranks may be a
// permutation of all that there are, with the same sum everywhere.
static inline float value_of(int rank, size_t index, uint64_t stamp) {
  const uint32_t mixed =
      (uint32_t)rank * 0x85EBCA6BU + ((uint32_t)index + (uint32_t)stamp) * 0x9E3779B9U;
  return (float)(mixed >> (32 - value_bits));
}

static inline void write_input(const struct Driver* driver, const struct Buffers* buffers,
                               size_t buffer) {
  float* in = (float*)(void*)(buffers->in + buffer * buffers->in_step);
  // In place a row of calls adds results up. Zeros stay zeros; what is altered is new each time.
  const int zeros = buffers->alter && buffers->command.in_place;
  for (size_t i = 0; i < buffers->shape.in; ++i)
    in[i] = zeros ? 0.0F : value_of(driver->rank, i, buffers->first);
}

// Between the calls of a row: one value, for what this costs is timed.
static inline void alter_input(const struct Driver* driver, const struct Buffers* buffers, void* in,
                               uint64_t stamp) {
  const float value = value_of(driver->rank, 0, stamp);
  for (size_t i = 0; i < buffers->shape.in; i += altered_step) ((float*)in)[i] = value;
}

// What `rank` gave at `index` to the last call.
static inline float given(const struct Buffers* buffers, int rank, size_t index) {
  if (buffers->alter && index % altered_step == 0) return value_of(rank, 0, buffers->last);
  if (buffers->alter && buffers->command.in_place) return 0.0F;
  return value_of(rank, index, buffers->first);
}

static inline float given_by_all(const struct Driver* driver, const struct Buffers* buffers,
                                 size_t index) {
  float sum = 0.0F;
  for (int rank = 0; rank < driver->ranks; ++rank) sum += given(buffers, rank, index);
  return sum;
}

static inline float expected(const struct Driver* driver, const struct Buffers* buffers,
                             size_t index) {
  const size_t count = buffers->shape.count;
  const size_t begin = (size_t)driver->rank * count;
  switch (buffers->command.collective) {
    case collective_broadcast:
      // What is not altered between calls is what the first root gave.
      if (buffers->alter && index % altered_step != 0) return given(buffers, 0, index);
      return given(buffers, buffers->last_root, index);
    case collective_gather:
    case collective_all_gather:
      return given(buffers, (int)(index / count), index % count);
    case collective_scatter:
      return given(buffers, buffers->last_root, begin + index);
    case collective_reduce_scatter:
      return given_by_all(driver, buffers, begin + index);
    case collective_all_to_all:
      return given(buffers, (int)(index / count), begin + index % count);
    case collective_send_recv:
      return given(buffers, driver->rank ^ 1, index);
    default:
      return given_by_all(driver, buffers, index);
  }
}

static inline int has_result(const struct Driver* driver, const struct Buffers* buffers) {
  switch (buffers->command.collective) {
    case collective_reduce:
    case collective_gather:
      return driver->rank == buffers->last_root;
    case collective_send_recv:
      return (driver->rank ^ 1) < driver->ranks;
    default:
      return 1;
  }
}

// Verifies the result of the last call; says in `text` what is wrong.
static inline int is_right(const struct Driver* driver, const struct Buffers* buffers, char* text,
                           size_t text_bytes) {
  if (!has_result(driver, buffers)) return 1;
  const char* place = is_in_place(&buffers->command)
                          ? buffers->in + buffers->last_used * buffers->in_step
                          : buffers->out + buffers->last_used * buffers->out_step;
  const float* out = (const float*)(const void*)place;
  // An odd stride comes by every remainder of the altered step.
  const size_t step = buffers->command.check_all || buffers->shape.out < 4096 ? 1 : 997;
  for (size_t i = 0; i < buffers->shape.out; i += step) {
    const float right = expected(driver, buffers, i);
    if (out[i] == right) continue;
    snprintf(text, text_bytes, "element %zu of %zu is %.9g and should be %.9g", i,
             buffers->shape.out, (double)out[i], (double)right);
    return 0;
  }
  return 1;
}

static inline size_t rounded(size_t value, size_t step) { return (value + step - 1) / step * step; }

static inline char* map_pages(const struct Driver* driver, size_t bytes) {
  void* memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) driver_fail("compare: mmap");
  // A kernel without huge pages refuses both, and needs neither.
  madvise(memory, bytes, driver->huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  memset(memory, 1, bytes);
  return (char*)memory;
}

enum {
  cold_bytes = 16 << 20,        // of inputs and outputs that a row of cold calls goes through
  cold_buffers = 2048,          // at most so many of each
  largest_row_bytes = 64 << 10  // warm calls with more are timed one by one, with whole new inputs
};

// Makes the buffers that `command` needs, unless the last command needed the same.
static inline void prepare(const struct Driver* driver, struct Buffers* buffers,
                           const struct Command* command) {
  struct Command wanted = *command;
  wanted.calls = 0;
  wanted.check_all = 0;
  if (buffers->memory != NULL && memcmp(&wanted, &buffers->command, sizeof wanted) == 0) return;
  if (buffers->memory != NULL) munmap(buffers->memory, buffers->memory_bytes);
  buffers->command = wanted;
  buffers->shape = shape_of(command->collective, command->bytes, driver->ranks);
  const size_t largest =
      (buffers->shape.in > buffers->shape.out ? buffers->shape.in : buffers->shape.out) *
      sizeof(float);
  // A line more than whole pages, so that small buffers do not all fall into one set of a cache.
  const size_t apart = 4096 + 64;
  buffers->in_step = rounded(buffers->shape.in * sizeof(float), 4096) + apart;
  buffers->out_step = rounded(buffers->shape.out * sizeof(float), 4096) + apart;
  const size_t both = buffers->in_step + buffers->out_step;
  buffers->alter = !command->cold && largest <= largest_row_bytes;
  buffers->buffers = 1;
  if (command->cold && both < cold_bytes)
    buffers->buffers = cold_bytes / both < cold_buffers ? cold_bytes / both : (size_t)cold_buffers;
  buffers->calls_in_a_row = buffers->alter ? SIZE_MAX : buffers->buffers;
  buffers->memory_bytes = rounded(both * buffers->buffers + 2 * 4096, 4096);
  buffers->memory = map_pages(driver, buffers->memory_bytes);
  buffers->in = buffers->memory + driver->offset;
  buffers->out =
      buffers->memory + rounded(buffers->in_step * buffers->buffers, 4096) + driver->offset;
  if (command->cold && buffers->sweep == NULL)
    buffers->sweep = map_pages(driver, driver->cache_bytes);
}

// Makes the caches forget the buffers.
static inline void sweep_caches(const struct Driver* driver, const struct Buffers* buffers) {
  volatile char* sweep = buffers->sweep;
  for (size_t i = 0; i < driver->cache_bytes; i += 64) sweep[i] = (char)(sweep[i] + 1);
}
