! A coalescing scope of the C API, as docs/fortran.md shows to call it.
module scopes
  use check
  implicit none
  private
  public :: test_scopes

  interface
    integer(c_int) function coalesce_begin(group, stream) bind(C, name='hymnCoalesceBegin')
      import
      type(hymn_group), value :: group
      type(c_ptr), value :: stream
    end function
    integer(c_int) function coalesce_end(group) bind(C, name='hymnCoalesceEnd')
      import
      type(hymn_group), value :: group
    end function
  end interface

contains

  ! It keeps addresses until its end: not those of copies.
  subroutine test_scopes(group, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: ranks
    integer, asynchronous :: values(6)
    integer :: stat
    character(len=200) :: text
    values = 1
    call expect(coalesce_begin(group, c_null_ptr) == hymn_success, 'a scope')
    call hymn_all_reduce(hymn_in_place, values(1:2), hymn_sum, group)
    call hymn_all_reduce(hymn_in_place, values(5:6), hymn_sum, group)
    call hymn_all_reduce(hymn_in_place, values(4:3:-1), hymn_sum, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, &
      & 'recvbuf is not contiguous, and a call in a coalescing scope copies nothing')
    call expect(coalesce_end(group) == hymn_success, 'the end of a scope')
    call expect(all(values == [ranks, ranks, 1, 1, ranks, ranks]), 'sums of a scope')
    call hymn_all_reduce(hymn_in_place, values(4:3:-1), hymn_sum, group)
    call expect(all(values == ranks), 'after it sections are copied again')
  end subroutine

end module scopes
