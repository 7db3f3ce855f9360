! Sections of arrays whose elements do not lie one after the other.
module sections
  use check
  implicit none
  private
  public :: test_sections

contains

  subroutine test_sections(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    call test_rows(group, rank, ranks)
    call test_strides(group, rank, ranks)
    call test_parts(group, rank, ranks)
    call test_messages(group, rank, ranks)
  end subroutine

  ! A row of a matrix: its neighbours stay as they are.
  subroutine test_rows(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    real :: matrix(3, 4)
    matrix = rank
    call hymn_all_reduce(hymn_in_place, matrix(2, :), hymn_sum, group)
    call expect(all(matrix(2, :) == ranks * (ranks - 1) / 2), 'a row')
    call expect(all(matrix(1, :) == rank) .and. all(matrix(3, :) == rank), 'its neighbours')
    matrix = rank
    call hymn_broadcast(matrix(1:3:2, 2:3), ranks - 1, group)
    call expect(all(matrix(1:3:2, 2:3) == ranks - 1), 'a section of rank 2')
    call expect(all(matrix(2, :) == rank) .and. all(matrix(:, 1) == rank), 'what is around it')
  end subroutine

  subroutine test_strides(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    integer :: in(6), out(3), i
    integer :: cube(2, 3, 0:2 * ranks - 1)
    in = [(10 * rank + i, i=1, 6)]
    call hymn_scan(in(6:1:-2), out, hymn_max, group)  ! backwards
    call expect(all(out == [10 * rank + 6, 10 * rank + 4, 10 * rank + 2]), 'backwards')
    ! From one kind of section to another.
    cube = -1
    call hymn_all_gather(in(1:6), cube(:, :, ::2), group)
    do i = 0, ranks - 1
      call expect(all(reshape(cube(:, :, 2 * i), [6]) == in + 10 * (i - rank)), 'rank 3')
      call expect(all(cube(:, :, 2 * i + 1) == -1), 'between sections of rank 3')
    end do
    call hymn_all_to_all(hymn_in_place, cube(1, 2, ::2), group)
    call expect(all(cube(1, 2, ::2) == 10 * rank + 3), 'all_to_all in place')
    out = -1
    call hymn_exscan(in(1:6:2), out(3:1:-1), hymn_max, group)
    if (rank == 0) call expect(all(out == -1), 'exscan leaves the first rank what it has')
    if (rank > 0) call expect(out(3) == 10 * rank - 9, 'exscan, backwards')
  end subroutine

  ! The parts of a derived type.
  subroutine test_parts(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    type :: pair
      real :: left
      integer :: right
    end type
    type(pair) :: pairs(3)
    complex :: z(2)
    pairs%left = 0.5
    pairs%right = rank
    call hymn_all_reduce(hymn_in_place, pairs%right, hymn_max, group)
    call expect(all(pairs%right == ranks - 1) .and. all(pairs%left == 0.5), 'components')
    z = cmplx(rank, 1)
    call hymn_all_reduce(hymn_in_place, z%re, hymn_sum, group)
    call expect(all(z%re == ranks * (ranks - 1) / 2) .and. all(z%im == 1), 'real parts')
  end subroutine

  subroutine test_messages(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    integer :: halo(4, 4), next, before
    type(hymn_status) :: status
    next = mod(rank + 1, ranks)
    before = mod(rank + ranks - 1, ranks)
    halo = rank
    call hymn_sendrecv(halo(3, :), next, 5, halo(1, :), before, 5, group, status)
    call expect(all(halo(1, :) == before) .and. all(halo(2:, :) == rank), 'halo of rows')
    call expect(status%source == before .and. status%tag == 5 .and. status%count == 4, 'status')
    ! Fewer elements than there is room for: the rest stays.
    halo = rank
    call hymn_sendrecv(halo(3, 1:2), next, 6, halo(1, :), before, 6, group)
    call expect(all(halo(1, 1:2) == before) .and. all(halo(1, 3:4) == rank), 'a short message')
  end subroutine

end module sections
