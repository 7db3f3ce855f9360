! All collectives on arrays of ranks 0 to 3, of every type of Fortran that hymn has, contiguous and
! not.
program collectives_test
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64
  use check
  use kinds_of_numbers, only: test_types
  use constants, only: test_constants
  use empty_arrays, only: test_empty_arrays
  use scopes, only: test_scopes
  use sections, only: test_sections
  use started, only: test_started
  use sized_blocks, only: test_sized_blocks
  implicit none

  type(hymn_world) :: world
  type(hymn_group) :: group
  integer :: rank, size_

  call hymn_init(world)
  call hymn_world_rank(world, rank)
  call hymn_world_size(world, size_)
  call hymn_world_group(world, group)
  call test_constants()
  call test_scalars()
  call test_arrays()
  call test_roots()
  call test_blocks()
  call test_in_place()
  call test_scans()
  call test_types(group, rank, size_)
  call test_sections(group, rank, size_)
  call test_sized_blocks(group, rank, size_)
  call test_started(group, rank, size_)
  call test_scopes(group, size_)
  call test_empty_arrays(world, group)
  call hymn_barrier(group)
  call hymn_finalize(world)
  call expect(hymn_is_null(world), 'the handle is null after hymn_finalize')

contains

  subroutine test_scalars()
    integer :: in, out
    in = rank + 1
    out = -1
    call hymn_all_reduce(in, out, hymn_sum, group)
    call expect(out == size_ * (size_ + 1) / 2, 'sum of scalars')
    call expect(in == rank + 1, 'an input is not written to')
    call hymn_all_reduce(rank + 1, out, hymn_max, group)  ! an expression
    call expect(out == size_, 'maximum of an expression')
  end subroutine

  subroutine test_arrays()
    real(real64) :: one(5), two(2, 3)
    real(real64), allocatable :: three(:, :, :), sums(:, :, :)
    integer :: i
    one = [(real(i * (rank + 1), real64), i=1, 5)]
    call hymn_all_reduce(hymn_in_place, one, hymn_sum, group)
    call expect(all(one == [(real(i * size_ * (size_ + 1) / 2, real64), i=1, 5)]), 'rank 1')
    two = rank
    call hymn_all_reduce(hymn_in_place, two, hymn_avg, group)
    call expect(all(two == real(size_ - 1, real64) / 2), 'rank 2, an average')
    allocate (three(2, 3, 4), sums(0:1, -1:1, 4))
    three = reshape([(real(i, real64), i=1, 24)], [2, 3, 4])
    call hymn_all_reduce(three, sums, hymn_sum, group)
    call expect(all(sums == size_ * three), 'rank 3, with other bounds')
    call hymn_all_reduce(three(:, :, 1:0), sums(:, :, 1:0), hymn_sum, group)  ! no elements
  end subroutine

  subroutine test_roots()
    integer :: values(3, 2), result(3, 2), root
    do root = 0, size_ - 1
      values = merge(7 + root, -1, rank == root)
      call hymn_broadcast(values, root, group)
      call expect(all(values == 7 + root), 'broadcast')
      values = rank + 1
      result = 0
      call hymn_reduce(values, result, hymn_sum, root, group)
      call expect(all(result == merge(size_ * (size_ + 1) / 2, 0, rank == root)), 'reduce')
    end do
  end subroutine

  subroutine test_blocks()
    integer :: mine(2, 2), again(2, 2), i
    integer, allocatable :: all_of(:, :, :), nothing(:), back(:, :, :)
    mine = reshape([10 * rank, 10 * rank + 1, 10 * rank + 2, 10 * rank + 3], [2, 2])
    allocate (all_of(2, 2, size_), source=-1)
    call hymn_all_gather(mine, all_of, group)
    do i = 1, size_
      call expect(all(all_of(:, :, i) == mine + 10 * (i - 1 - rank)), 'all_gather')
    end do
    ! A rank that is not the root needs no memory for what only the root receives.
    all_of = -1
    if (rank == size_ - 1) then
      call hymn_gather(mine, all_of, size_ - 1, group)
      call expect(all(all_of(1, 1, :) == [(10 * i, i=0, size_ - 1)]), 'gather')
      call hymn_gather(mine, all_of, size_ - 1, group)
      call hymn_scatter(2 * all_of, again, size_ - 1, group)
      call hymn_scatter(2 * all_of, mine, size_ - 1, group)
    else
      call hymn_gather(mine, [integer ::], size_ - 1, group)
      call hymn_gather(mine, nothing, size_ - 1, group)
      call hymn_scatter([integer ::], again, size_ - 1, group)
      call hymn_scatter(nothing, mine, size_ - 1, group)
    end if
    call expect(mine(2, 2) == 2 * (10 * rank + 3) .and. all(again == mine), 'scatter')
    all_of = rank
    call hymn_reduce_scatter(all_of, mine, hymn_sum, group)
    call expect(all(mine == size_ * (size_ - 1) / 2), 'reduce_scatter')
    allocate (back(2, 2, size_))
    do i = 1, size_
      all_of(:, :, i) = 100 * rank + i - 1
    end do
    call hymn_all_to_all(all_of, back, group)
    do i = 1, size_
      call expect(all(back(:, :, i) == 100 * (i - 1) + rank), 'all_to_all')
    end do
  end subroutine

  subroutine test_in_place()
    integer :: i, own(3)
    integer :: blocks(3, 0:size_ - 1)
    blocks = -1
    blocks(:, rank) = rank
    call hymn_all_gather(hymn_in_place, blocks, group)
    call expect(all(blocks(2, :) == [(i, i=0, size_ - 1)]), 'all_gather in place')
    blocks = -1
    blocks(:, rank) = rank
    if (rank == 0) then
      call hymn_gather(hymn_in_place, blocks, 0, group)
      call expect(all(blocks(3, :) == [(i, i=0, size_ - 1)]), 'gather in place')
      call hymn_scatter(blocks, hymn_in_place, 0, group)
    else
      call hymn_gather(blocks(:, rank), blocks, 0, group)
      call hymn_scatter(blocks, own, 0, group)
      call expect(all(own == rank), 'scatter in place at the root')
    end if
    blocks(:, :) = rank
    call hymn_all_to_all(hymn_in_place, blocks, group)
    call expect(all(blocks(1, :) == [(i, i=0, size_ - 1)]), 'all_to_all in place')
    own = rank + 1
    if (rank == 0) then
      call hymn_reduce(hymn_in_place, own, hymn_sum, 0, group)
      call expect(all(own == size_ * (size_ + 1) / 2), 'reduce in place')
    else
      call hymn_reduce(own, own, hymn_sum, 0, group)
    end if
  end subroutine

  subroutine test_scans()
    integer(int64) :: in(4), out(4)
    in = rank + 1
    call hymn_scan(in, out, hymn_sum, group)
    call expect(all(out == (rank + 1) * (rank + 2) / 2), 'scan')
    out = -5
    call hymn_exscan(in, out, hymn_sum, group)
    call expect(all(out == merge(-5, rank * (rank + 1) / 2, rank == 0)), 'exscan')
  end subroutine

end program
