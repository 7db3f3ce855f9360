! Which handles a wait frees, what it tells of, and what is defined after a failure.
module waits
  use check
  implicit none
  private
  public :: test_waits

  integer :: stat
  character(len=400) :: text

contains

  subroutine test_waits(world, group, rank, ranks)
    type(hymn_world), intent(in) :: world
    type(hymn_group), intent(inout) :: group
    integer, intent(in) :: rank, ranks
    type(hymn_group) :: pair
    call test_group_of_all(group)
    call test_what_is_defined(group, ranks)
    if (ranks == 1) return
    call hymn_group_create(world, [0, 1], pair, description='waits')
    if (rank < 2) then
      call test_many_short_waits(pair, rank)
      call test_wait_for_all(pair, rank)
      call test_failed_works(pair, rank)
      call test_status_of_sends(pair, rank)
    end if
    call hymn_group_free(pair)
  end subroutine

  ! Each wait ends at once, so that messages come at any moment: between two waits, too.
  subroutine test_many_short_waits(pair, rank)
    type(hymn_group), intent(in) :: pair
    integer, intent(in) :: rank
    integer, asynchronous :: value
    type(hymn_work) :: work
    integer :: i
    do i = 1, 200
      if (rank == 0) call hymn_send(i, 1, 1, pair)
      if (rank == 0) cycle
      value = 0
      call hymn_irecv(value, 0, 1, pair, work)
      do
        call hymn_wait(work, timeout=1d-7, stat=stat, errmsg=text)
        if (stat == hymn_success) exit
        call expect_failure(hymn_timeout_error, stat, text, 'hymn_wait: ')
        call expect(.not. hymn_is_null(work), 'the handle stays after a wait that has ended early')
      end do
      call expect(hymn_is_null(work) .and. value == i, 'received at last')
    end do
  end subroutine

  ! One has failed and one is in flight when the wait ends: both handles stay, and so does the error.
  subroutine test_wait_for_all(pair, rank)
    type(hymn_group), intent(in) :: pair
    integer, intent(in) :: rank
    integer, asynchronous :: short, late
    type(hymn_work) :: works(2)
    late = 0
    if (rank == 1) then
      call hymn_irecv(short, 0, 2, pair, works(1))
      call hymn_irecv(late, 0, 3, pair, works(2))
      call hymn_wait_all(works, timeout=0.3d0, stat=stat, errmsg=text)
      call expect_failure(hymn_timeout_error, stat, text, 'hymn_wait_all: ')
      call expect(.not. any(hymn_is_null(works)), 'handles stay after a wait that has ended early')
      call hymn_send(1, 0, 4, pair)
      call hymn_wait_all(works, timeout=20d0, stat=stat, errmsg=text)
      call expect(stat /= hymn_success .and. stat /= hymn_timeout_error, 'too long: '//text)
      call expect(index(text, 'hymn_wait_all: ') == 1, text)
      call expect(all(hymn_is_null(works)) .and. late == 7, 'all have ended')
    else
      call hymn_send([1, 2], 1, 2, pair)  ! longer than there is room for
      call hymn_recv(late, 1, 4, pair)
      call hymn_send(7, 1, 3, pair)
    end if
  end subroutine

  ! An operation that has failed is told of once, and freed.
  subroutine test_failed_works(pair, rank)
    type(hymn_group), intent(in) :: pair
    integer, intent(in) :: rank
    integer, asynchronous :: never(4)
    type(hymn_work) :: works(4)
    integer :: i, index
    logical :: done
    if (rank == 0) then
      call hymn_send([1, 2], 1, 12, pair)  ! longer than there is room for
      return
    end if
    call hymn_thread_set_timeout(0.05d0)
    do i = 1, 4
      call hymn_irecv(never(i), 0, 10 + i, pair, works(i))
    end do
    call hymn_thread_set_timeout(hymn_timeout_default)
    call hymn_wait(works(1), stat=stat, errmsg=text)
    call expect_failure(hymn_timeout_error, stat, text, 'limit 0.050 s')
    call hymn_wait(works(2), timeout=20d0, stat=stat, errmsg=text)
    call expect(stat /= hymn_success .and. stat /= hymn_timeout_error, 'too long: '//text)
    call expect(hymn_is_null(works(2)), 'it has ended')
    call hymn_wait_any(works, index, stat=stat, errmsg=text)
    call expect_failure(hymn_timeout_error, stat, text, 'limit 0.050 s')
    call expect(index == 3, 'the index of what has failed')
    done = .false.
    stat = hymn_success
    do while (.not. done)
      call hymn_test(works(4), done, stat=stat, errmsg=text)
    end do
    call expect_failure(hymn_timeout_error, stat, text, 'limit 0.050 s')
    call expect(all(hymn_is_null(works)), 'what has failed is freed')
  end subroutine

  ! A send receives nothing.
  subroutine test_status_of_sends(pair, rank)
    type(hymn_group), intent(in) :: pair
    integer, intent(in) :: rank
    integer, asynchronous :: value
    type(hymn_work) :: works(3)
    type(hymn_status) :: status
    integer :: i, index
    logical :: done
    value = 5
    if (rank == 0) then
      do i = 1, 3
        call hymn_isend(value, 1, 20 + i, pair, works(i))
      end do
      call make_wrong(status)
      call hymn_wait(works(1), status=status)
      call expect_nothing(status, 'hymn_wait')
      done = .false.
      do while (.not. done)
        call make_wrong(status)
        call hymn_test(works(2), done, status)
      end do
      call expect_nothing(status, 'hymn_test')
      call make_wrong(status)
      call hymn_wait_any(works, index, status=status)
      call expect_nothing(status, 'hymn_wait_any')
      call expect(all(hymn_is_null(works)), 'all have completed')
    else
      do i = 1, 3
        call hymn_recv(value, 0, 20 + i, pair, status)
        call expect(status%source == 0 .and. status%tag == 20 + i, 'what was received')
      end do
    end if
  end subroutine

  subroutine make_wrong(status)
    type(hymn_status), intent(out) :: status
    status = hymn_status(77, 78, 79)
  end subroutine

  subroutine expect_nothing(status, what)
    type(hymn_status), intent(in) :: status
    character(len=*), intent(in) :: what
    call expect(status%source == -1 .and. status%tag == 0 .and. status%count == 0, what)
  end subroutine

  ! Its handle is the world's: what is refused stays.
  subroutine test_group_of_all(group)
    type(hymn_group), intent(inout) :: group
    call hymn_group_free(group, stat, text)
    call expect_failure(hymn_usage_error, stat, text, 'belongs to its world')
    call expect(.not. hymn_is_null(group), 'the group of all ranks stays')
    call hymn_barrier(group)
  end subroutine

  subroutine test_what_is_defined(group, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: ranks
    type(hymn_world) :: no_world
    type(hymn_group) :: no_group
    type(hymn_message) :: message
    type(hymn_status) :: status
    type(hymn_op) :: op
    integer :: value
    message = hymn_message(77, 78, 79)
    call hymn_probe(ranks, 1, group, message, stat, text)
    call expect_failure(hymn_usage_error, stat, text, 'hymn_probe: ')
    call expect(message%source == -1 .and. message%tag == 0 .and. message%bytes == 0, 'probe')
    call make_wrong(status)
    call hymn_recv(value, ranks, 1, group, status, stat=stat)
    call expect_nothing(status, 'recv')
    call make_wrong(status)
    call hymn_sendrecv(1, ranks, 1, value, ranks, 1, group, status, stat=stat)
    call expect_nothing(status, 'sendrecv')
    value = 77
    call hymn_world_rank(no_world, value, stat)
    call expect(stat == hymn_usage_error .and. value == -1, 'the rank in no world')
    value = 77
    call hymn_group_size(no_group, value, stat)
    call expect(stat == hymn_usage_error .and. value == -1, 'the size of no group')
    call hymn_op_minloc(hymn_bool, op, stat)
    call expect(stat /= hymn_success, 'no minloc of truths')
    value = 1
    call hymn_all_reduce(hymn_in_place, value, op, group)
    call expect(value == ranks, 'the default of operations is a sum')
  end subroutine

end module waits
