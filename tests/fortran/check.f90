! What the Fortran tests check with. A failed check ends the process at once, and so the whole
! mpirun job.
module check
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: error_unit
  use hymn
  implicit none

  ! Not error stop: nothing that waits for the other ranks may run any more.
  interface
    subroutine end_process(status) bind(C, name='_Exit')
      import
      integer(c_int), value :: status
    end subroutine
  end interface

contains

  subroutine expect(condition, what)
    logical, intent(in) :: condition
    character(len=*), intent(in) :: what
    if (condition) return
    write (error_unit, '(5a)') 'check failed: ', what, " (last error: '", hymn_last_error(), "')"
    flush (error_unit)
    call end_process(1_c_int)
  end subroutine

  ! The call has failed with this kind, and its text holds these words; so has errmsg, cut off.
  subroutine expect_failure(kind, stat, errmsg, words)
    integer(c_int), intent(in) :: kind, stat
    character(len=*), intent(in) :: errmsg, words
    call expect(stat == kind, 'failed with '//hymn_error_string(stat)//' in place of '// &
      & hymn_error_string(kind)//'; '//words)
    call expect(index(hymn_last_error(), words) > 0, words//' in the text')
    call expect(len_trim(errmsg) > 0, 'errmsg has a text')
    call expect(index(hymn_last_error(), trim(errmsg)) == 1, 'errmsg is the text: '//trim(errmsg))
  end subroutine

end module check
