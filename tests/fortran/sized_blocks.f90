! Blocks of given sizes: rank i has i, or i + 1, elements.
module sized_blocks
  use, intrinsic :: iso_fortran_env, only: int64
  use check
  implicit none
  private
  public :: test_sized_blocks

contains

  subroutine test_sized_blocks(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    call test_gathers(group, rank, ranks)
    call test_gathers_in_place(group, rank, ranks)
    call test_scatters(group, rank, ranks)
    call test_all_to_all(group, rank, ranks)
  end subroutine

  subroutine test_gathers(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    real(c_double), dimension(ranks * (ranks - 1) / 2) :: all_of, expected
    real(c_double) :: mine(ranks)
    integer :: counts(ranks), i, j
    counts = [(i, i=0, ranks - 1)]  ! the first one has none
    expected = [((real(i, c_double), j=1, i), i=0, ranks - 1)]
    mine = rank
    all_of = -1
    call hymn_all_gatherv(mine, all_of, counts, group)
    call expect(all(all_of == expected), 'all_gatherv')
    all_of = -1
    call hymn_gatherv(mine, all_of, int(counts, int64), ranks - 1, group)
    if (rank == ranks - 1) call expect(all(all_of == expected), 'gatherv, with integer(int64)')
    if (rank < ranks - 1) call expect(all(all_of == -1), 'gatherv writes at the root alone')
  end subroutine

  subroutine test_gathers_in_place(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    integer :: all_of(2, ranks * (ranks + 1) / 2), expected(ranks * (ranks + 1) / 2), i, j, stat
    integer :: counts(ranks), own(ranks * (ranks + 1) / 2)
    counts = [(i, i=1, ranks)]
    expected = [((i - 1, j=1, i), i=1, ranks)]
    own = merge(rank, -1, expected == rank)
    all_of(1, :) = own
    all_of(2, :) = -2
    call hymn_all_gatherv(hymn_in_place, all_of(1, :), counts, group)
    call expect(all(all_of(1, :) == expected) .and. all(all_of(2, :) == -2), 'all_gatherv in place')
    if (rank == 0) call hymn_gatherv(hymn_in_place, own, counts, 0, group)
    if (rank > 0) call hymn_gatherv(pack(own, own == rank), own, counts, 0, group)
    if (rank == 0) call expect(all(own == expected), 'gatherv in place')
    call hymn_all_to_allv(hymn_in_place, own, counts, counts, group, stat=stat)
    call expect(stat == hymn_usage_error, 'all_to_allv in place is refused')
  end subroutine

  subroutine test_scatters(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    integer :: all_of(2, ranks * (ranks + 1) / 2), mine(ranks), counts(2 * ranks), i, j
    counts = -1
    counts(::2) = [(i, i=1, ranks)]
    all_of(1, :) = [((i - 1, j=1, i), i=1, ranks)]
    all_of(2, :) = 1
    mine = -1
    call hymn_scatterv(all_of(1, :), mine, counts(::2), 0, group)
    call expect(all(mine(:rank + 1) == rank) .and. all(mine(rank + 2:) == -1), 'scatterv')
    call hymn_reduce_scatterv(all_of(2, :), mine, counts(::2), hymn_sum, group)
    call expect(all(mine(:rank + 1) == ranks), 'reduce_scatterv')
  end subroutine

  ! Rank i sends j + 1 elements to rank j.
  subroutine test_all_to_all(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    integer :: out(ranks * (ranks + 1) / 2), in(ranks * (rank + 1)), i, j
    out = [((100 * rank + j, i=1, j + 1), j=0, ranks - 1)]
    in = -1
    call hymn_all_to_allv(out, in, [(j + 1, j=0, ranks - 1)], [(rank + 1, j=1, ranks)], group)
    call expect(all(in == [((100 * i + rank, j=0, rank), i=0, ranks - 1)]), 'all_to_allv')
  end subroutine

end module sized_blocks
