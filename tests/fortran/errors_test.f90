! Groups, time limits, and what goes wrong: each failure has its kind and a text that names the
! procedure, the rank, the group and the line of this file, and leaves everything usable.
program errors_test
  use check
  use waits, only: test_waits
  implicit none

  type(hymn_world) :: world
  type(hymn_group) :: group
  integer :: rank, size_, stat
  character(len=400) :: text

  call hymn_init(world, timeout=60d0, progress_thread=-1)
  call hymn_world_rank(world, rank)
  call hymn_world_size(world, size_)
  call hymn_world_group(world, group)
  call test_texts()
  call test_groups()
  call test_splits()
  call test_wrong_arrays()
  call test_wrong_calls()
  call test_sections_that_are_started()
  call test_waits(world, group, rank, size_)
  if (size_ > 1) call test_limits()
  if (size_ > 1) call test_mismatch()
  call hymn_barrier(group)
  call hymn_finalize(world)

contains

  subroutine test_texts()
    character(len=5) :: short
    type(hymn_group) :: none
    call expect(len(hymn_version()) >= 5, 'a version')
    call expect(len(hymn_error_string(hymn_usage_error)) > 0, 'what a kind means')
    stat = -1
    text = 'as it was'
    call hymn_barrier(group, stat=stat, errmsg=text)
    call expect(stat == hymn_success .and. text == 'as it was', 'a success leaves errmsg alone')
    call hymn_barrier(none, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'hymn_barrier: group is NULL')
    call hymn_barrier(none, stat=stat, errmsg=short)
    call expect(short == 'hymn_', 'errmsg is cut off')
    call hymn_barrier(none, stat=stat)
    call expect(stat == hymn_usage_error, 'without errmsg')
  end subroutine

  subroutine test_groups()
    type(hymn_group) :: evens, again
    character(len=:), allocatable :: tag
    integer :: i, place, members, value, global
    real(c_double) :: seconds
    call hymn_group_create(world, [(i, i=0, size_ - 1, 2)], evens, timeout=30d0, &
      & description='even ranks  ')
    call hymn_group_rank(evens, place)
    call hymn_group_size(evens, members)
    call expect(members == (size_ + 1) / 2, 'members')
    call expect(place == merge(rank / 2, -1, mod(rank, 2) == 0), 'place')
    call hymn_group_get_timeout(evens, seconds)
    call expect(seconds == 30, 'the limit of a group')
    call hymn_group_set_timeout(evens, hymn_timeout_none)
    call hymn_group_get_timeout(evens, seconds)
    call expect(seconds == hymn_timeout_none, 'no limit')
    value = 1
    call hymn_all_reduce(hymn_in_place, value, hymn_sum, evens)
    call expect(value == merge(members, 1, place >= 0), 'a group of some ranks')
    call hymn_group_to_global(evens, members - 1, global)
    call hymn_group_from_global(evens, global, value)
    call expect(global == 2 * (members - 1) .and. value == members - 1, 'places and ranks')
    call hymn_group_to_global(evens, members, global, stat, text)
    call expect_failure(hymn_usage_error, stat, text, 'not part of group')
    call expect(index(text, 'even ranks#') > 0, 'the group is named: '//text)
    call hymn_group_free(evens)
    call expect(hymn_is_null(evens), 'freed')
    call hymn_group_create(world, [(i, i=0, size_ - 1)], evens, tag='mine ', &
      & local_sync=.true._c_bool)
    call hymn_group_tag(evens, tag)
    call expect(tag == 'mine', 'the tag')
    call hymn_group_find(world, 'mine', [(i, i=0, size_ - 1)], again)
    call expect(.not. hymn_is_null(again), 'found by its tag')
    call hymn_group_free(again)
    call hymn_group_destroy(evens)
    call hymn_group_free(evens)
    call hymn_group_find(world, 'nobody', [0], again)
    call expect(hymn_is_null(again), 'none with this tag')
  end subroutine

  subroutine test_splits()
    type(hymn_group) :: half
    integer :: color, members
    color = merge(hymn_no_color, mod(rank, 2), rank == 2)
    call hymn_group_split(group, color, -rank, half, description='half')
    call expect(hymn_is_null(half) .eqv. rank == 2, 'a rank that gives no color gets no group')
    if (hymn_is_null(half)) return
    call hymn_group_size(half, members)
    call expect(members == merge(size_ / 2, (size_ + 1) / 2 - merge(1, 0, size_ > 2), &
      & mod(rank, 2) == 1), 'members of a half')
    call hymn_group_free(half)
  end subroutine

  ! Found by the module itself.
  subroutine test_wrong_arrays()
    integer :: in(4), out(5), counts(size_ + 1)
    real :: other(4)
    logical :: truths(2)
    real, allocatable :: nothing(:)
    character(len=60) :: place
    in = 0
    truths = .true.
    write (place, '(a, i0, a)') "[rank ", rank, ", group 'default_pg', hymn_all_reduce]"
    call hymn_all_reduce(in, out, hymn_sum, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, &
      & 'hymn_all_reduce: sendbuf has 4 elements and recvbuf 5, which should have 4 '//trim(place))
    call hymn_all_reduce(in, other, hymn_sum, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, &
      & 'sendbuf is of type integer(4), recvbuf of type real(4)')
    call hymn_all_reduce(nothing, other, hymn_sum, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'sendbuf is not allocated')
    call hymn_all_reduce(hymn_in_place, truths, hymn_sum, group, stat=stat, errmsg=text)
    call expect_failure(hymn_unsupported_error, stat, text, 'recvbuf is logical; only hymn_land')
    call hymn_all_reduce(hymn_in_place, in, hymn_sum, group, hymn_int16, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, &
      & 'elements have 4 bytes; those of the dtype have 2')
    call hymn_reduce_scatter(hymn_in_place, in, hymn_sum, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'sendbuf cannot be hymn_in_place')
    call hymn_all_gather(in, out(1:3), group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'recvbuf 3, which should have')
    call hymn_reduce_scatter(out, in, hymn_sum, group, stat=stat, errmsg=text)
    if (size_ == 2) call expect_failure(hymn_usage_error, stat, text, &
      & 'sendbuf has 5 elements, which cannot be divided equally among 2 ranks')
    call expect(stat == hymn_usage_error, 'blocks that are not equal')
    counts = 1
    call hymn_all_gatherv(in, out, counts, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'entries, for a group of')
    counts = -1
    call hymn_all_gatherv(in, out, counts(2:), group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'counts(1) is -1')
    counts = 5
    call hymn_all_gatherv(in, out, counts(2:), group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'of which the counts take 5')
    call test_polymorphic(in)
    call test_assumed_size(in, 2)
  end subroutine

  subroutine test_assumed_size(values, n)
    integer, intent(in) :: n
    integer, intent(inout) :: values(n, *)
    call hymn_broadcast(values, 0, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'buf is an assumed-size array, whose size is unknown')
    values(:, 1:2) = rank
    call hymn_all_reduce(hymn_in_place, values(:, 1:2), hymn_max, group)
    call expect(all(values(:, 1:2) == size_ - 1), 'a section of an assumed-size array')
  end subroutine

  subroutine test_polymorphic(anything)
    class(*), intent(inout) :: anything(:)
    call hymn_broadcast(anything, 0, group, stat=stat, errmsg=text)
    call expect_failure(hymn_unsupported_error, stat, text, 'select type')
  end subroutine

  ! Found by hymn.
  subroutine test_wrong_calls()
    real :: value
    integer :: integers(2)
    type(hymn_work) :: work
    type(hymn_message) :: message
    logical :: done
    value = 1
    call hymn_all_reduce(hymn_in_place, value, hymn_bor, group, stat=stat, errmsg=text)
    call expect_failure(hymn_unsupported_error, stat, text, 'hymn_all_reduce: ')
    call expect(index(text, 'remedy') > 0 .or. index(text, 'float') > 0, text)
    call hymn_broadcast(value, size_, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'not part of group')
    call hymn_send(value, rank, 0, group, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'itself')
    call hymn_wait(work, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'hymn_wait: work is NULL')
    call hymn_test(work, done, stat=stat, errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, 'hymn_test: work is NULL')
    call hymn_iprobe(size_, 0, group, done, message, stat, text)
    call expect_failure(hymn_usage_error, stat, text, 'not part of group')
    integers = 0
    call hymn_iall_reduce(integers, integers(2), hymn_sum, group, work, stat=stat, errmsg=text)
    call expect(stat == hymn_usage_error .and. hymn_is_null(work), 'no work after an error')
  end subroutine

  subroutine test_sections_that_are_started()
    integer, asynchronous :: values(6)
    type(hymn_work) :: work
    values = 1
    call hymn_iall_reduce(hymn_in_place, values(1:6:2), hymn_sum, group, work, stat=stat, &
      & errmsg=text)
    call expect_failure(hymn_usage_error, stat, text, &
      & 'hymn_iall_reduce: recvbuf is not contiguous')
    call expect(hymn_is_null(work) .and. all(values == 1), 'nothing was started')
    call hymn_iall_reduce(hymn_in_place, values(1:3), hymn_sum, group, work)
    call hymn_wait(work, timeout=20d0)
    call expect(all(values(1:3) == size_) .and. all(values(4:) == 1), 'a contiguous section')
  end subroutine

  ! A wait that ends early leaves the operation in flight; a limit that passes ends it.
  subroutine test_limits()
    integer, asynchronous :: value
    type(hymn_group) :: pair
    type(hymn_work) :: work
    call hymn_group_create(world, [0, 1], pair, description='pair')
    value = 0
    if (rank == 1) then
      call hymn_irecv(value, 0, 7, pair, work)
      call hymn_wait(work, timeout=0.05d0, stat=stat, errmsg=text)
      call expect_failure(hymn_timeout_error, stat, text, 'hymn_wait: ')
      call expect(.not. hymn_is_null(work), 'still in flight')
    end if
    call hymn_barrier(group)
    if (rank == 0) call hymn_send(12, 1, 7, pair)
    if (rank == 1) then
      call hymn_wait(work)
      call expect(value == 12, 'received after a wait that has ended early')
      call hymn_thread_set_timeout(0.2d0)
      call hymn_recv(value, 0, 8, pair, stat=stat, errmsg=text)
      call expect_failure(hymn_timeout_error, stat, text, 'limit 0.200 s')
      call expect(index(text, 'rank 1') > 0, 'the rank is named: '//text)
      call expect(index(text, 'pair#') > 0, 'the group is named: '//text)
      call expect(index(text, 'errors_test.f90:') > 0, 'the line of this file: '//text)
      call hymn_thread_set_timeout(hymn_timeout_default)
    end if
    call hymn_barrier(group)
    call hymn_group_free(pair)
  end subroutine

  ! A rank that makes another call is told so, with the lines of both.
  subroutine test_mismatch()
    integer :: value(3)
    type(hymn_group) :: pair
    value = 0
    call hymn_group_create(world, [0, 1], pair, timeout=20d0, description='differs')
    if (rank == 0) &
      & call hymn_all_reduce(hymn_in_place, value, hymn_sum, pair, stat=stat, errmsg=text)
    if (rank == 1) call hymn_broadcast(value, 0, pair, stat=stat, errmsg=text)
    if (rank < 2) then
      call expect(stat /= hymn_success, 'calls that differ fail')
      call expect(index(text, 'differs#') > 0, 'the group is named: '//text)
      call hymn_barrier(pair, stat=stat, errmsg=text)
      call expect_failure(hymn_aborted_error, stat, text, 'hymn_barrier: ')
    end if
    call hymn_group_abort(pair, 'it is over', stat)
    call hymn_group_free(pair)
  end subroutine

end program
