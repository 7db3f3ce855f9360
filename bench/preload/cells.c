// Each collective at each size, carried by hymn and by MPI in turns, in one job:
//     mpicc -O2 -o cells bench/preload/cells.c -ldl
//     mpirun -n 4 -x LD_PRELOAD=$(hymn preload) -x HYMN_PRELOAD=always ./cells [MPI's library]
// Prints microseconds of a call (medians of blocks of calls, of the slowest rank) and their ratio.
// What is sent is written anew before each call, a byte of each cache line, which is part of the
// time of both. Calls with a root are measured twice: with one root, which may run ahead of the
// others, and with another one each time.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { blocks = 15, most = 1 << 22 };

static int rank, size, root, rotates;
static char *in, *out;
static int *counts, *places, *elements;
static void* library;

static void* real(const char* name) {
  void* found = dlsym(library, name);
  if (found == NULL) {
    fprintf(stderr, "%s is not in MPI's library\n", name);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  return found;
}

typedef void (*Call)(int bytes, int by_mpi);
#define REAL(name) (by_mpi ? (__typeof__(&MPI_##name))real_##name : MPI_##name)
// name, arguments (`bytes` are those of one rank or block), shape as of measure(), whether it has a
// root.
// clang-format off
#define CASES(each)                                                                                   \
  each(Allreduce, (in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), 1, 0)                       \
  each(Reduce, (in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD), 1, 1)                    \
  each(Bcast, (in, bytes, MPI_BYTE, root, MPI_COMM_WORLD), 1, 1)                                         \
  each(Barrier, (MPI_COMM_WORLD), 0, 0)                                                                  \
  each(Gather, (in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, root, MPI_COMM_WORLD), 1, 1)                  \
  each(Gatherv, (in, bytes, MPI_BYTE, out, counts, places, MPI_BYTE, root, MPI_COMM_WORLD), 1, 1)        \
  each(Scatter, (in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, root, MPI_COMM_WORLD), 2, 1)                 \
  each(Scatterv, (in, counts, places, MPI_BYTE, out, bytes, MPI_BYTE, root, MPI_COMM_WORLD), 2, 1)       \
  each(Allgather, (in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD), 1, 0)                     \
  each(Allgatherv, (in, bytes, MPI_BYTE, out, counts, places, MPI_BYTE, MPI_COMM_WORLD), 1, 0)           \
  each(Alltoall, (in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD), 2, 0)                      \
  each(Alltoallv, (in, counts, places, MPI_BYTE, out, counts, places, MPI_BYTE, MPI_COMM_WORLD), 2, 0)   \
  each(Reduce_scatter, (in, out, elements, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), 2, 0)                   \
  each(Reduce_scatter_block, (in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), 2, 0)            \
  each(Scan, (in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), 1, 0)                            \
  each(Exscan, (in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), 1, 0)
// clang-format on

#define DEFINE(name, arguments, shape, rooted)     \
  static void* real_##name;                        \
  static void call_##name(int bytes, int by_mpi) { \
    (void)bytes;                                   \
    REAL(name) arguments;                          \
  }
CASES(DEFINE)

static int by_value(const void* a, const void* b) {
  const double left = *(const double*)a, right = *(const double*)b;
  return (left > right) - (left < right);
}

static double block(Call call, int bytes, int sent, int by_mpi, int calls) {
  double took, slowest;
  ((__typeof__(&MPI_Barrier))real_Barrier)(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int i = 0; i < calls; ++i) {
    root = rotates ? i % size : 0;
    for (int at = 0; at < sent; at += 64) in[at] = (char)(in[at] + 8);
    call(bytes, by_mpi);
  }
  took = (MPI_Wtime() - began) / calls * 1e6;
  ((__typeof__(&MPI_Allreduce))real_Allreduce)(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX,
                                               MPI_COMM_WORLD);
  return slowest;
}

// `shape`: 0: sends nothing, 1: one block, 2: a block for each rank.
static void measure(const char* name, Call call, int bytes, int shape) {
  double times[2][blocks];
  const int sent = shape == 2 ? bytes * size : shape == 1 ? bytes : 0;
  for (int i = 0; i < size; ++i) {
    counts[i] = bytes;
    places[i] = i * bytes;
    elements[i] = bytes / 8;
  }
  block(call, bytes, sent, 0, 4);
  const double guess = block(call, bytes, sent, 1, 8);
  int calls = guess < 1 ? 1000 : (int)(1000 / guess) + 2;
  MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < blocks; ++i)
    for (int by_mpi = 0; by_mpi < 2; ++by_mpi)
      times[by_mpi][i] = block(call, bytes, sent, by_mpi, calls);
  for (int i = 0; i < 2; ++i) qsort(times[i], blocks, sizeof(double), by_value);
  if (rank == 0)
    printf("%-22s %8d %10.2f %10.2f %6.2f\n", name, bytes, times[0][blocks / 2],
           times[1][blocks / 2], times[0][blocks / 2] / times[1][blocks / 2]);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  library = dlopen(argc > 1 ? argv[1] : "libmpi.so.40", RTLD_NOW | RTLD_NOLOAD);
  if (library == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
#define FIND(name, arguments, shape, rooted) real_##name = real("PMPI_" #name);
  CASES(FIND)
  counts = calloc(3 * (size_t)size, sizeof(int));
  places = counts + size;
  elements = places + size;
  in = calloc((size_t)size, most);
  out = calloc((size_t)size, most);
  if (rank == 0)
    printf("%d ranks\n%-22s %8s %10s %10s %6s\n", size, "call", "bytes", "hymn", "MPI", "ratio");
#define MEASURE(name, arguments, shape, rooted)        \
  for (rotates = 0; rotates <= rooted; ++rotates)      \
    for (int bytes = 8; bytes <= most / 4; bytes *= 4) \
      if (shape != 0 || bytes == 8) measure(#name, call_##name, bytes, shape);
  CASES(MEASURE)
  MPI_Finalize();
  return 0;
}
