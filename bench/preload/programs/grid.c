/* Writes a grid by parallel HDF5, collectively, and reads it back in other blocks. */
#include <hdf5.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { rows_each = 64, columns = 512, steps = 40 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  const hid_t access = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  const hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
  const hid_t file = H5Fcreate("grid.h5", H5F_ACC_TRUNC, H5P_DEFAULT, access);
  const hsize_t whole[2] = {(hsize_t)rows_each * (hsize_t)size, columns};
  const hsize_t part[2] = {rows_each, columns};
  double* values = malloc(sizeof(double) * rows_each * columns);
  double sum = 0;
  for (int step = 0; step < steps; ++step) {
    char name[32];
    snprintf(name, sizeof name, "step%d", step);
    const hid_t space = H5Screate_simple(2, whole, NULL);
    const hid_t memory = H5Screate_simple(2, part, NULL);
    const hid_t data =
        H5Dcreate2(file, name, H5T_NATIVE_DOUBLE, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    for (int i = 0; i < rows_each * columns; ++i) values[i] = rank * 1000.0 + step + i % 7;
    hsize_t start[2] = {(hsize_t)rows_each * (hsize_t)rank, 0};
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
    H5Dwrite(data, H5T_NATIVE_DOUBLE, memory, space, transfer, values);
    start[0] = (hsize_t)rows_each * (hsize_t)((rank + 1) % size);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, start, NULL, part, NULL);
    H5Dread(data, H5T_NATIVE_DOUBLE, memory, space, transfer, values);
    double own = values[0] + values[rows_each * columns - 1], all = 0;
    MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    sum += all;
    H5Dclose(data);
    H5Sclose(memory);
    H5Sclose(space);
  }
  H5Fclose(file);
  if (rank == 0) printf("sum %.1f\n", sum);
  if (rank == 0) unlink("grid.h5");
  MPI_Finalize();
  return 0;
}
