// Each rank starts a receive of a message that nobody sends, on a communicator with a name.
#include <mpi.h>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm halo = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &halo);
  MPI_Comm_set_name(halo, "halo");
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(halo, &rank);
  MPI_Comm_size(halo, &size);
  int in = rank;
  int out = -1;
  MPI_Request requests[2];
  MPI_Status statuses[2];  // to ignore them by MPICH's address draws a warning of gcc 12
  MPI_Recv_init(&out, 1, MPI_INT, (rank + size - 1) % size, 0, halo, &requests[0]);
  MPI_Send_init(&in, 1, MPI_INT, (rank + 1) % size, 0, halo, &requests[1]);
  for (int i = 0; i < 3; ++i) {
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, statuses);
  }
  MPI_Start(&requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  MPI_Comm_free(&halo);
  MPI_Finalize();
  return 0;
}
