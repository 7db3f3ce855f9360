! Without stat a failure ends the program with its text, and what was printed is not lost. With an
! argument the call is part of a statement that prints, whose unit cannot be flushed then.
program fatal_test
  use hymn
  implicit none
  type(hymn_world) :: world
  type(hymn_group) :: group
  integer :: sum
  call hymn_init(world)
  call hymn_world_group(world, group)
  if (command_argument_count() == 0) then
    print '(a)', 'printed before'
    sum = failing()
    print '(a)', 'not reached'
  else
    print '(a, i0)', 'not reached ', failing()
  end if

contains

  integer function failing() result(first)
    integer :: in(2), out(3)
    in = 0
    out = 0
    call hymn_all_reduce(in, out, hymn_sum, group)
    first = out(1)
  end function

end program
