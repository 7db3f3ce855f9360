! Two communicators, and rank 0 uses them in another order than the others.
program order
  use mpi
  implicit none
  integer :: rank, first, second, i, ierr
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, first, ierr)
  call MPI_Comm_dup(MPI_COMM_WORLD, second, ierr)
  call MPI_Comm_set_name(first, 'first', ierr)
  do i = 1, 4
    call MPI_Barrier(first, ierr)
    call MPI_Barrier(second, ierr)
  end do
  if (rank == 0) then
    call MPI_Allreduce(MPI_IN_PLACE, rank, 1, MPI_INTEGER, MPI_SUM, first, ierr)
    call MPI_Barrier(second, ierr)
  else
    call MPI_Barrier(second, ierr)
    call MPI_Allreduce(MPI_IN_PLACE, rank, 1, MPI_INTEGER, MPI_SUM, first, ierr)
  end if
  call MPI_Finalize(ierr)
end program
