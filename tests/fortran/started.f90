! Nonblocking operations.
module started
  use check
  implicit none
  private
  public :: test_started

contains

  subroutine test_started(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    call test_one(group, rank, ranks)
    call test_every_collective(group, rank, ranks)
    call test_sizes(group, rank, ranks)
    call test_messages(group, rank, ranks)
  end subroutine

  subroutine test_one(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    integer, asynchronous :: in(1000), out(1000)
    type(hymn_work) :: work
    logical :: done
    call expect(hymn_is_null(work), 'a work is null until it is made')
    in = rank
    call hymn_iall_reduce(in, out, hymn_sum, group, work)
    call expect(.not. hymn_is_null(work), 'started')
    call hymn_wait(work)
    call expect(hymn_is_null(work), 'waited for')
    call expect(all(out == ranks * (ranks - 1) / 2), 'iall_reduce')
    call hymn_ibarrier(group, work)
    done = .false.
    do while (.not. done)
      call hymn_test(work, done)
    end do
    call expect(hymn_is_null(work), 'tested')
  end subroutine

  subroutine test_every_collective(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    integer, asynchronous :: one(2, 9), lists(2, ranks, 3), sent(2, ranks)
    type(hymn_work) :: works(9)
    integer :: i
    one = rank
    sent = rank
    one(:, 3:9) = -1
    call hymn_iscan(hymn_in_place, one(:, 1), hymn_max, group, works(1))
    call hymn_iexscan(hymn_in_place, one(:, 2), hymn_max, group, works(2))
    if (rank == 0) one(:, 3) = 33
    call hymn_ibroadcast(one(:, 3), 0, group, works(3))
    call hymn_ireduce(sent(:, 1), one(:, 4), hymn_max, 0, group, works(4))
    call hymn_igather(sent(:, 1), lists(:, :, 1), 0, group, works(5))
    call hymn_iscatter(sent, one(:, 5), 0, group, works(6))
    call hymn_iall_gather(sent(:, 1), lists(:, :, 2), group, works(7))
    call hymn_ireduce_scatter(sent, one(:, 6), hymn_max, group, works(8))
    call hymn_iall_to_all(sent, lists(:, :, 3), group, works(9))
    call hymn_wait_all(works)
    call expect(all(hymn_is_null(works)), 'all waited for')
    call expect(all(one(:, 1) == rank), 'iscan')
    if (rank > 0) call expect(all(one(:, 2) == rank - 1), 'iexscan')
    call expect(all(one(:, 3) == 33), 'ibroadcast')
    call expect(all(one(:, 4) == merge(ranks - 1, -1, rank == 0)), 'ireduce')
    if (rank == 0) call expect(all(lists(1, :, 1) == [(i, i=0, ranks - 1)]), 'igather')
    call expect(all(one(:, 5) == 0), 'iscatter')
    call expect(all(lists(2, :, 2) == [(i, i=0, ranks - 1)]), 'iall_gather')
    call expect(all(one(:, 6) == ranks - 1), 'ireduce_scatter')
    call expect(all(lists(1, :, 3) == [(i, i=0, ranks - 1)]), 'iall_to_all')
  end subroutine

  subroutine test_sizes(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    integer, asynchronous :: sent(ranks), own(4), gathered(ranks), all_of(ranks), back(ranks)
    integer :: counts(ranks), i, left, index
    type(hymn_work) :: works(5)
    counts = 1
    sent = rank
    own = -1
    call hymn_igatherv(sent, gathered, counts, 0, group, works(1))
    call hymn_iscatterv(sent, own(1:1), counts, 0, group, works(2))
    call hymn_iall_gatherv(sent, all_of, counts, group, works(3))
    call hymn_ireduce_scatterv(sent, own(2:2), counts, hymn_max, group, works(4))
    call hymn_iall_to_allv(sent, back, counts, counts, group, works(5))
    do left = 5, 1, -1
      call hymn_wait_any(works, index)
      call expect(index >= 1 .and. index <= 5, 'the index of what has completed')
      call expect(count(hymn_is_null(works)) == 6 - left, 'one at a time')
    end do
    if (rank == 0) call expect(all(gathered == [(i, i=0, ranks - 1)]), 'igatherv')
    call expect(all(own == [0, ranks - 1, -1, -1]), 'iscatterv, ireduce_scatterv')
    call expect(all(all_of == [(i, i=0, ranks - 1)]), 'iall_gatherv')
    call expect(all(back == [(i, i=0, ranks - 1)]), 'iall_to_allv')
  end subroutine

  subroutine test_messages(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    real, asynchronous :: sent(3), received(5)
    type(hymn_work) :: works(2)
    type(hymn_status) :: status
    type(hymn_message) :: message
    logical :: found
    integer :: next, before
    if (ranks == 1) return
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    sent = rank
    received = -1
    call hymn_isend(sent, next, 3, group, works(1))
    call hymn_probe(hymn_any_source, 3, group, message)
    call expect(message%source == before .and. message%bytes == 12, 'probe')
    call hymn_iprobe(before, 3, group, found, message)
    call expect(found, 'iprobe')
    call hymn_irecv(received, before, 3, group, works(2))
    call hymn_wait(works(2), status=status)
    call hymn_wait(works(1))
    call expect(status%source == before .and. status%count == 3, 'what was received')
    call expect(all(received == [before, before, before, -1, -1]), 'isend, irecv')
    call hymn_isendrecv(sent, next, 4, received(1:3), before, 4, group, works(1))
    call hymn_wait_all(works)
    call hymn_sendrecv_replace(sent, next, 5, before, 5, group, status)
    call expect(all(sent == before) .and. status%count == 3, 'sendrecv_replace')
    if (rank == 0) call hymn_send(sent, 1, 6, group)
    if (rank == 1) call hymn_recv(received, hymn_any_source, 6, group, status)
    if (rank == 1) call expect(status%source == 0 .and. received(1) == ranks - 1, 'send, recv')
  end subroutine

end module started
