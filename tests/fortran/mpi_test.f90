! Communicators of mpi_f08, and integers as mpif.h and the module mpi have them, as worlds.
program communicators
  use mpi_f08
  use check
  implicit none
  type(hymn_world) :: world
  type(MPI_Comm) :: half
  integer, allocatable :: none
  integer :: rank, ranks, members, stat
  logical :: is_over
  character(len=200) :: text

  call MPI_Init()
  call MPI_Comm_rank(MPI_COMM_WORLD, rank)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half)
  call MPI_Comm_size(half, members)
  call hymn_init_from_comm(world, MPI_COMM_WORLD)
  call check_sum(ranks)
  call hymn_init_from_comm(world, half, timeout=20d0)
  call check_sum(members)
  call hymn_init_from_comm(world, half%MPI_VAL)
  call check_sum(members)
  call hymn_init_from_comm(world, MPI_COMM_NULL, stat=stat, errmsg=text)
  call expect_failure(hymn_usage_error, stat, text, 'hymn_init_from_comm')
  call hymn_init_from_comm(world, 1.5, stat=stat, errmsg=text)
  call expect_failure(hymn_usage_error, stat, text, 'comm is not an MPI communicator')
  call hymn_init_from_comm(world, none, stat=stat, errmsg=text)
  call expect_failure(hymn_usage_error, stat, text, 'comm is not allocated, or not associated')
  call MPI_Comm_free(half)
  call MPI_Finalized(is_over)
  call expect(.not. is_over, 'MPI is the program''s')
  call MPI_Finalize()

contains

  subroutine check_sum(expected)
    integer, intent(in) :: expected
    type(hymn_group) :: group
    integer :: one
    one = 1
    call hymn_world_group(world, group)
    call hymn_all_reduce(hymn_in_place, one, hymn_sum, group)
    call expect(one == expected, 'the sum over a communicator')
    call hymn_finalize(world)
  end subroutine
end program
