// What compare.py and the drivers say to each other, and how a driver comes to its turn.
//
// Every rank sleeps in read() on a pipe of its own until compare.py sends a Command, carries it out
// together with the other ranks of its job, and writes an Answer into the pipe that its job shares.
// The end of its pipe is the end of the driver. The pipes have no names: a driver opens them as
// /proc/<process of compare.py>/fd/<number>, so none is left over whatever dies.
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
  collective_all_reduce,
  collective_broadcast,
  collective_reduce,
  collective_gather,
  collective_scatter,
  collective_all_gather,
  collective_reduce_scatter,
  collective_all_to_all,
  collective_send_recv,
  collective_barrier,
  collective_count
};

// One block of calls. The layouts of Command and Answer are known to job.py.
struct Command {
  uint32_t collective;
  uint32_t in_place;
  uint32_t cold;         // a buffer that no cache holds for each call
  uint32_t check_all;    // verify every element of the last result, not only some
  uint32_t rotate_root;  // the next rank with every call, not always rank 0
  uint32_t unused;
  uint64_t bytes;  // the larger of a rank's input and output
  uint64_t calls;
};

enum { answer_good, answer_wrong_result, answer_not_offered };

struct Answer {
  uint32_t rank;
  uint32_t process;
  uint32_t state;
  uint32_t calls_in_a_row;
  double us;  // mean time of a call on this rank
  char text[96];
};

// Where the ranks of a job meet before each timed stretch, in memory that they share. A barrier of
// the library under test alone would hand an advantage to the one whose ranks leave it together.
struct Meeting {
  uint32_t arrived;
  char apart[60];
  uint32_t phase;
};

struct Driver {
  int rank;
  int ranks;
  int commands;
  int results;
  struct Meeting* meeting;
  int share_cores;     // more ranks than cores
  int huge_pages;      // ask for them; otherwise forbid them
  unsigned offset;     // of every buffer from a multiple of 4096 bytes
  unsigned limit_s;    // a command that takes longer ends the process
  size_t cache_bytes;  // what a sweep must displace
};

static inline void driver_fail(const char* what) {
  perror(what);
  exit(3);
}

// This process's rank before its library knows: from the launcher's environment.
static inline int rank_of_launcher(void) {
  const char* names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "COMPARE_RANK"};
  for (size_t i = 0; i < sizeof names / sizeof names[0]; ++i) {
    const char* text = getenv(names[i]);
    if (text != NULL) return atoi(text);
  }
  fprintf(stderr, "compare: no rank in the environment: started without its launcher?\n");
  exit(3);
}

// Binds this process as `text` says: "bind:0,1" to one of the cores in turn, "share:0,1" to all of
// them. To be called before the library starts, so that it sees what it would see below a binding
// launcher.
static inline void bind_process(const char* text) {
  int cores[CPU_SETSIZE];
  int count = 0;
  for (const char* at = strchr(text, ':'); at != NULL && count < CPU_SETSIZE; at = strchr(at, ','))
    cores[count++] = atoi(++at);
  if (count == 0) driver_fail("compare: no cores to bind to");
  const int mine = rank_of_launcher() % count;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int i = 0; i < count; ++i)
    if (strncmp(text, "share", 5) == 0 || i == mine) CPU_SET((size_t)cores[i], &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) driver_fail("compare: sched_setaffinity");
}

// -1: compare.py has gone.
static inline int open_of_parent(int parent, int descriptor, int mode) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", parent, descriptor);
  return open(path, mode | O_CLOEXEC);
}

// The place of this rank's pipe in the list "7,9,12".
static inline const char* entry_of_rank(const char* list, int rank) {
  for (int i = 0; i < rank && list != NULL; ++i) {
    list = strchr(list, ',');
    if (list != NULL) ++list;
  }
  return list;
}

// `settings` is job.py's text; `commands` lists the ranks' pipes. 0: compare.py has gone. The
// library can then still be shut down in good order, so that it leaves nothing behind.
static inline int connect_driver(struct Driver* driver, const char* settings, const char* commands,
                                 int rank, int ranks) {
  memset(driver, 0, sizeof *driver);
  driver->rank = rank;
  driver->ranks = ranks;
  int parent = 0;
  int results = 0;
  int meeting = 0;
  commands = entry_of_rank(commands, rank);
  if (sscanf(settings, "%d results=%d meeting=%d share=%d huge=%d offset=%u limit=%u cache=%zu",
             &parent, &results, &meeting, &driver->share_cores, &driver->huge_pages,
             &driver->offset, &driver->limit_s, &driver->cache_bytes) != 8 ||
      commands == NULL) {
    fprintf(stderr, "compare: rank %d cannot use '%s'\n", rank, settings);
    exit(3);
  }
  // Writing to a compare.py that has gone must not end this process either.
  signal(SIGPIPE, SIG_IGN);
  driver->commands = open_of_parent(parent, atoi(commands), O_RDONLY);
  driver->results = open_of_parent(parent, results, O_WRONLY);
  const int shared = open_of_parent(parent, meeting, O_RDWR);
  if (driver->commands < 0 || driver->results < 0 || shared < 0) return 0;
  void* mapped = mmap(NULL, sizeof(struct Meeting), PROT_READ | PROT_WRITE, MAP_SHARED, shared, 0);
  if (mapped == MAP_FAILED) driver_fail("compare: mmap");
  close(shared);
  driver->meeting = (struct Meeting*)mapped;
  return 1;
}

static inline void meet(const struct Driver* driver) {
  struct Meeting* meeting = driver->meeting;
  const uint32_t phase = __atomic_load_n(&meeting->phase, __ATOMIC_ACQUIRE);
  if (__atomic_add_fetch(&meeting->arrived, 1, __ATOMIC_ACQ_REL) == (uint32_t)driver->ranks) {
    __atomic_store_n(&meeting->arrived, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&meeting->phase, phase + 1, __ATOMIC_RELEASE);
    return;
  }
  while (__atomic_load_n(&meeting->phase, __ATOMIC_ACQUIRE) == phase) {
    if (driver->share_cores) sched_yield();
  }
}

// Sleeps until it is this job's turn. 0: there will be no more.
static inline int next_command(const struct Driver* driver, struct Command* command) {
  return read(driver->commands, command, sizeof *command) == (ssize_t)sizeof *command;
}

// `text` may be NULL.
static inline void send_answer(const struct Driver* driver, uint32_t state, double us,
                               uint32_t calls_in_a_row, const char* text) {
  struct Answer answer;
  memset(&answer, 0, sizeof answer);
  answer.rank = (uint32_t)driver->rank;
  answer.process = (uint32_t)getpid();
  answer.state = state;
  answer.us = us;
  answer.calls_in_a_row = calls_in_a_row;
  if (text != NULL) snprintf(answer.text, sizeof answer.text, "%s", text);
  // Shorter than PIPE_BUF, so never mixed with another rank's. If compare.py has gone, the next
  // command will tell.
  if (write(driver->results, &answer, sizeof answer) < 0) perror("compare: answering");
}
