! Without stat a failure ends the program with its text, and what was printed is not lost.
program fatal_test
  use hymn
  implicit none
  type(hymn_world) :: world
  type(hymn_group) :: group
  integer :: in(2), out(3)
  call hymn_init(world)
  call hymn_world_group(world, group)
  in = 0
  print '(a)', 'printed before'
  call hymn_all_reduce(in, out, hymn_sum, group)
  print '(a)', 'not reached'
end program
