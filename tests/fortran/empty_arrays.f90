! Arrays without elements. gfortran gives those that begin beyond their end extents below 0.
module empty_arrays
  use check
  implicit none
  private
  public :: test_empty_arrays

  integer :: stat
  character(len=300) :: text

contains

  subroutine test_empty_arrays(world, group)
    type(hymn_world), intent(in) :: world
    type(hymn_group), intent(in) :: group
    integer, volatile :: none
    none = 0
    call test_buffers(group, none)
    call test_short_of_empty(group, none)
    call test_works(none)
    call test_ranks(world, none)
    call test_counts(group, none)
  end subroutine

  subroutine test_buffers(group, none)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: none
    integer :: list(4), matrix(3, 4)
    list = 1
    matrix = 2
    call hymn_all_reduce(list(1:none), list(3:none), hymn_sum, group)
    call hymn_all_reduce([integer ::], list(4:none), hymn_sum, group)
    call hymn_broadcast(matrix(2:none, :), 0, group)
    call hymn_broadcast(matrix(3:none, ::2), 0, group)
    call hymn_broadcast(matrix(2:none, 2:none), 0, group)
    call hymn_all_gather(matrix(:, 3:none), list(1:none), group)
    call expect(all(list == 1) .and. all(matrix == 2), 'nothing was written')
  end subroutine

  ! As gfortran describes an assumed-size array: refused, with a text that names both.
  subroutine test_short_of_empty(group, none)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: none
    integer :: list(4), matrix(3, 4)
    list = 1
    matrix = 2
    call hymn_broadcast(list(2:none), 0, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'or an empty section such as a(2:0)')
    call hymn_broadcast(matrix(:, 2:none), 0, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'buf is an assumed-size array')
  end subroutine

  subroutine test_works(none)
    integer, intent(in) :: none
    type(hymn_work) :: works(4)
    integer :: index
    call hymn_wait_all(works(2:none))
    call hymn_wait_all(works(3:none))
    call hymn_wait_any(works(2:none), index, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'no operation to wait for')
    call hymn_wait_any(works(3:none), index, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'no operation to wait for')
    call expect(index == 0, 'the index of none')
  end subroutine

  subroutine test_ranks(world, none)
    type(hymn_world), intent(in) :: world
    integer, intent(in) :: none
    type(hymn_group) :: group
    integer :: ranks(4), first
    ranks = 0
    do first = 2, 3
      call hymn_group_create(world, ranks(first:none), group, stat=stat, errmsg=text)
      call expect_failure(hymn_usage_error, stat, text, 'hymn_group_create: ')
      call hymn_group_find(world, 'nobody', ranks(first:none), group, stat, text)
      call expect(hymn_is_null(group), 'a group of nobody')
    end do
  end subroutine

  subroutine test_counts(group, none)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: none
    integer :: counts(4), mine(1), all_of(1), first
    counts = 0
    mine = 0
    do first = 2, 3
      call hymn_all_gatherv(mine, all_of, counts(first:none), group, stat=stat, errmsg=text)
      call expect_failure(hymn_usage_error, stat, text, 'counts has 0 entries, for a group of')
    end do
  end subroutine

end module empty_arrays
