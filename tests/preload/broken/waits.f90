! Ranks 0 and 1 wait for each other's message before they send their own.
program waits
  use mpi_f08
  implicit none
  integer :: rank
  real :: mine(4), theirs(4)
  type(MPI_Request) :: request
  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  mine = rank
  if (rank < 2) then
    call MPI_Irecv(theirs, 4, MPI_REAL, 1 - rank, 5, MPI_COMM_WORLD, request)
    call MPI_Wait(request, MPI_STATUS_IGNORE)
    call MPI_Send(mine, 4, MPI_REAL, 1 - rank, 5, MPI_COMM_WORLD)
  end if
  call MPI_Barrier(MPI_COMM_WORLD)
  call MPI_Finalize()
end program
