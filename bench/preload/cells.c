// Each collective at each size, carried by hymn and by MPI in turns, in one job:
//     mpicc -O2 -o cells bench/preload/cells.c -ldl
//     mpirun -n 4 -x LD_PRELOAD=$(hymn preload) -x HYMN_PRELOAD=always ./cells [MPI's library]
// Prints microseconds of a call (medians of blocks of calls, of the slowest rank) and their ratio.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { blocks = 15, most = 1 << 22 };

static int rank, size, root;
static char *in, *out;
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
#define CASES(each)                                                                               \
  each(Allreduce, (in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), 1) each(             \
      Reduce, (in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD),                    \
      1) each(Bcast, (in, bytes, MPI_BYTE, root, MPI_COMM_WORLD), 1) each(Barrier,                \
                                                                          (MPI_COMM_WORLD), 0)    \
      each(Gather, (in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, root, MPI_COMM_WORLD), 1) each(    \
          Scatter, (in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, root, MPI_COMM_WORLD),             \
          1) each(Allgather, (in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD), 1)      \
          each(Alltoall, (in, bytes, MPI_BYTE, out, bytes, MPI_BYTE, MPI_COMM_WORLD), 1) each(    \
              Reduce_scatter_block, (in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), 1) \
              each(Scan, (in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), 1)            \
                  each(Exscan, (in, out, bytes / 8, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD), 1)

#define DEFINE(name, arguments, sized)             \
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

static double block(Call call, int bytes, int by_mpi, int calls) {
  double took, slowest;
  ((__typeof__(&MPI_Barrier))real_Barrier)(MPI_COMM_WORLD);
  const double began = MPI_Wtime();
  for (int i = 0; i < calls; ++i) call(bytes, by_mpi);
  took = (MPI_Wtime() - began) / calls * 1e6;
  ((__typeof__(&MPI_Allreduce))real_Allreduce)(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX,
                                               MPI_COMM_WORLD);
  return slowest;
}

static void measure(const char* name, Call call, int bytes) {
  double times[2][blocks];
  block(call, bytes, 0, 4);
  const double guess = block(call, bytes, 1, 8);
  int calls = guess < 1 ? 1000 : (int)(1000 / guess) + 2;
  MPI_Bcast(&calls, 1, MPI_INT, 0, MPI_COMM_WORLD);
  for (int i = 0; i < blocks; ++i)
    for (int by_mpi = 0; by_mpi < 2; ++by_mpi) times[by_mpi][i] = block(call, bytes, by_mpi, calls);
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
#define FIND(name, arguments, sized) real_##name = real("PMPI_" #name);
  CASES(FIND)
  in = calloc((size_t)size, most);
  out = calloc((size_t)size, most);
  if (rank == 0)
    printf("%d ranks\n%-22s %8s %10s %10s %6s\n", size, "call", "bytes", "hymn", "MPI", "ratio");
#define MEASURE(name, arguments, sized)              \
  for (int bytes = 8; bytes <= most / 4; bytes *= 4) \
    if (sized || bytes == 8) measure(#name, call_##name, bytes);
  CASES(MEASURE)
  MPI_Finalize();
  return 0;
}
