! mpirun -n 4 fortran_all_reduce: as all_reduce.cpp, from Fortran.
program fortran_all_reduce
  use hymn
  implicit none

  type(hymn_world) :: world
  type(hymn_group) :: group
  real(kind(1d0)) :: values(1000)
  integer :: rank, size

  ! Without stat a failure ends the program with its text; mpirun then ends the other ranks.
  call hymn_init(world)
  call hymn_world_group(world, group)
  call hymn_world_rank(world, rank)
  call hymn_world_size(world, size)

  values = rank + 1
  call hymn_all_reduce(hymn_in_place, values, hymn_sum, group)
  print '(a, i0, a, i0, a, i0)', 'rank ', rank, ' of ', size, ' has ', nint(values(1))
  call hymn_finalize(world)
end program
