! The smallest user of hymn in Fortran: sums the numbers of all ranks.
program main
  use hymn
  implicit none
  type(hymn_world) :: world
  type(hymn_group) :: group
  integer :: rank, size, value
  call hymn_init(world)
  call hymn_world_group(world, group)
  call hymn_world_rank(world, rank)
  call hymn_world_size(world, size)
  value = rank + 1
  call hymn_all_reduce(hymn_in_place, value, hymn_sum, group)
  print '(a, i0, a, i0, a, i0)', 'rank ', rank, ' of ', size, ': sum ', value
  call hymn_finalize(world)
end program
