// An MPI library in the comparison: compiled by the mpicc of each.
#include <mpi.h>

#include "bench/compare/driver.h"

static void all_reduce(const struct Call* call) {
  const void* in = call->in == call->out ? MPI_IN_PLACE : call->in;
  MPI_Allreduce(in, call->out, (int)call->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void broadcast(const struct Call* call) {
  MPI_Bcast(call->out, (int)call->count, MPI_FLOAT, call->root, MPI_COMM_WORLD);
}

static void reduce(const struct Call* call) {
  MPI_Reduce(call->in, call->out, (int)call->count, MPI_FLOAT, MPI_SUM, call->root, MPI_COMM_WORLD);
}

static void gather(const struct Call* call) {
  MPI_Gather(call->in, (int)call->count, MPI_FLOAT, call->out, (int)call->count, MPI_FLOAT,
             call->root, MPI_COMM_WORLD);
}

static void scatter(const struct Call* call) {
  MPI_Scatter(call->in, (int)call->count, MPI_FLOAT, call->out, (int)call->count, MPI_FLOAT,
              call->root, MPI_COMM_WORLD);
}

static void all_gather(const struct Call* call) {
  MPI_Allgather(call->in, (int)call->count, MPI_FLOAT, call->out, (int)call->count, MPI_FLOAT,
                MPI_COMM_WORLD);
}

static void reduce_scatter(const struct Call* call) {
  MPI_Reduce_scatter_block(call->in, call->out, (int)call->count, MPI_FLOAT, MPI_SUM,
                           MPI_COMM_WORLD);
}

static void all_to_all(const struct Call* call) {
  MPI_Alltoall(call->in, (int)call->count, MPI_FLOAT, call->out, (int)call->count, MPI_FLOAT,
               MPI_COMM_WORLD);
}

static void send(const struct Call* call) {
  MPI_Send(call->in, (int)call->count, MPI_FLOAT, call->rank ^ 1, 0, MPI_COMM_WORLD);
}

static void receive(const struct Call* call) {
  MPI_Recv(call->out, (int)call->count, MPI_FLOAT, call->rank ^ 1, 0, MPI_COMM_WORLD,
           MPI_STATUS_IGNORE);
}

static void send_recv(const struct Call* call) {
  if ((call->rank ^ 1) >= call->ranks) return;
  if (call->rank % 2 == 0) send(call);
  receive(call);
  if (call->rank % 2 == 1) send(call);
}

static void barrier(const struct Call* call) {
  (void)call;
  MPI_Barrier(MPI_COMM_WORLD);
}

int main(int argc, char** argv) {
  if (argc != 4) {
    fprintf(stderr, "compare.py starts this program\n");
    return 2;
  }
  bind_process(argv[3]);
  MPI_Init(NULL, NULL);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char version[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  MPI_Get_library_version(version, &length);
  version[strcspn(version, ",\n")] = '\0';
  const struct Library library = {NULL,
                                  version,
                                  {all_reduce, broadcast, reduce, gather, scatter, all_gather,
                                   reduce_scatter, all_to_all, send_recv, barrier}};
  drive(argv, rank, ranks, &library);
  MPI_Finalize();
  return 0;
}
