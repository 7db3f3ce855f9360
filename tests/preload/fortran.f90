! Collectives of a Fortran program, which reach MPI by another library of its own.
program fortran
  use mpi_f08
  implicit none
  integer :: rank, ranks, i, counts
  integer :: total(3), sums(3)
  real(8) :: table(4, 6), mine(2)
  real(8), allocatable :: all(:)
  logical :: everywhere, here
  type(MPI_Datatype) :: row
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  do i = 1, 4
    total = rank + i
    call MPI_Allreduce(MPI_IN_PLACE, total, 3, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    if (any(total /= ranks * i + ranks * (ranks - 1) / 2)) error stop 'Allreduce in place'
    call MPI_Allreduce(total, sums, 3, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
    if (any(sums /= total)) error stop 'Allreduce'
  end do
  here = rank /= 0
  call MPI_Allreduce(here, everywhere, 1, MPI_LOGICAL, MPI_LAND, MPI_COMM_WORLD)
  if (everywhere) error stop 'Allreduce of logicals'
  ! A row of a matrix: every fourth number.
  call MPI_Type_vector(6, 1, 4, MPI_DOUBLE_PRECISION, row)
  call MPI_Type_commit(row)
  table = rank
  call MPI_Bcast(table(2, 1), 1, row, ranks - 1, MPI_COMM_WORLD)
  if (any(table(2, :) /= ranks - 1) .or. any(table(1, :) /= rank)) error stop 'Bcast of a row'
  call MPI_Type_free(row)
  allocate(all(2 * ranks))
  mine = rank
  call MPI_Allgather(mine, 2, MPI_DOUBLE_PRECISION, all, 2, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD)
  do counts = 1, ranks
    if (any(all(2 * counts - 1:2 * counts) /= counts - 1)) error stop 'Allgather'
  end do
  call MPI_Finalize()
  if (rank == 0) print '(a)', 'all is right'
end program
