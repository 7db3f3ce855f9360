! Every type that hymn has: which one an array is of is found by itself, or given.
module kinds_of_numbers
  use, intrinsic :: iso_fortran_env, only: int8, int16, int32, int64, real32, real64, real128
  use check
  implicit none
  private
  public :: test_types

  type :: particle
    real(real64) :: mass
    integer :: number
  end type

contains

  subroutine test_types(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    call test_numbers(group, rank, ranks)
    call test_logicals(group, rank, ranks)
    call test_values(group, rank, ranks)
    call test_given_types(group, rank, ranks)
    call test_own_operation(group, rank, ranks)
  end subroutine

  subroutine test_numbers(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    integer(int8) :: i1(2)
    integer(int16) :: i2(2)
    integer(int32) :: i4(2)
    integer(int64) :: i8(2)
    real(real32) :: r4(2)
    real(real64) :: r8(2)
    complex(real32) :: c8(2)
    complex(real64) :: c16(2)
    integer :: sum
    sum = ranks * (ranks + 1) / 2
    i1 = int(rank + 1, int8)
    i2 = int(rank + 1, int16)
    i4 = rank + 1
    i8 = shiftl(int(rank + 1, int64), 40)
    r4 = rank + 1
    r8 = rank + 1
    c8 = cmplx(rank + 1, -rank - 1)
    c16 = cmplx(rank + 1, 2 * (rank + 1), real64)
    call hymn_all_reduce(hymn_in_place, i1, hymn_sum, group)
    call hymn_all_reduce(hymn_in_place, i2, hymn_sum, group)
    call hymn_all_reduce(hymn_in_place, i4, hymn_sum, group)
    call hymn_all_reduce(hymn_in_place, i8, hymn_sum, group)
    call hymn_all_reduce(hymn_in_place, r4, hymn_sum, group)
    call hymn_all_reduce(hymn_in_place, r8, hymn_sum, group)
    call hymn_all_reduce(hymn_in_place, c8, hymn_sum, group)
    call hymn_all_reduce(hymn_in_place, c16, hymn_sum, group)
    call expect(all(i1 == sum) .and. all(i2 == sum) .and. all(i4 == sum), 'integers')
    call expect(all(i8 == shiftl(int(sum, int64), 40)), 'integer(int64)')
    call expect(all(r4 == sum) .and. all(r8 == sum), 'reals')
    call expect(all(c8 == cmplx(sum, -sum)), 'complex(real32)')
    call expect(all(c16 == cmplx(sum, 2 * sum, real64)), 'complex(real64)')
    i4 = ishft(1, rank)
    call hymn_all_reduce(hymn_in_place, i4, hymn_bor, group)
    call expect(all(i4 == ishft(1, ranks) - 1), 'bits')
  end subroutine

  subroutine test_logicals(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    logical :: plain(3), result(3)
    logical(c_bool) :: short(3)
    plain = [.true., .false., rank == 0]
    call hymn_all_reduce(plain, result, hymn_land, group)
    call expect(all(result .eqv. [.true., .false., ranks == 1]), 'land of logicals')
    short = plain
    call hymn_all_reduce(hymn_in_place, short, hymn_lor, group)
    call expect(all(short .eqv. [.true., .false., .true.]), 'lor of logical(c_bool)')
    call hymn_all_reduce(plain, result, hymn_lxor, group)
    call expect(all(result .eqv. [mod(ranks, 2) == 1, .false., .true.]), 'lxor of logicals')
  end subroutine

  ! What hymn has no arithmetic for is moved.
  subroutine test_values(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    character(len=7) :: name
    character(len=7), allocatable :: names(:)
    type(particle) :: mine, all_of(ranks)
    real(real128) :: long(2)
    integer :: i
    allocate (names(ranks))
    write (name, '(a, i0)') 'rank ', rank
    call hymn_all_gather(name, names, group)
    do i = 1, ranks
      write (name, '(a, i0)') 'rank ', i - 1
      call expect(names(i) == name, 'characters')
    end do
    mine = particle(0.5d0 * rank, rank)
    call hymn_all_gather(mine, all_of, group)
    call expect(all(all_of%number == [(i, i=0, ranks - 1)]), 'a derived type')
    long = merge(1.0_real128 / 3, 0.0_real128, rank == 0)
    call hymn_broadcast(long, 0, group)
    call expect(all(long == 1.0_real128 / 3), 'real(real128)')
  end subroutine

  ! Integers that stand for what Fortran has no type for.
  subroutine test_given_types(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    integer(int8) :: byte
    integer(int16) :: half(2), sums(7)  ! of up to 7 ranks
    byte = merge(-1_int8, 1_int8, rank == 0)  ! 255
    call hymn_all_reduce(hymn_in_place, byte, hymn_max, group, dtype=hymn_uint8)
    call expect(byte == -1_int8, 'unsigned')
    half = int(z'3f80', int16)  ! 1.0
    call hymn_all_reduce(hymn_in_place, half, hymn_sum, group, dtype=hymn_bfloat16)
    sums = int([integer :: 16256, 16384, 16448, 16512, 16544, 16576, 16608], int16)
    call expect(all(half == sums(ranks)), 'the sum of ones in bfloat16')
  end subroutine

  subroutine test_own_operation(group, rank, ranks)
    type(hymn_group), intent(in) :: group
    integer, intent(in) :: rank, ranks
    type, bind(C) :: located
      real(c_double) :: value
      integer(c_int64_t) :: place
    end type
    type(hymn_op) :: op
    type(particle) :: mine, heaviest
    type(located) :: least
    real(real64) :: scaled
    call hymn_op_create(keep_heavier, c_sizeof_particle(), .true., op)
    mine = particle(real(mod(rank + 1, ranks), real64), rank)
    call hymn_all_reduce(mine, heaviest, op, group)
    call expect(heaviest%number == merge(0, ranks - 2, ranks == 1), "the program's own operation")
    call hymn_op_free(op)
    call hymn_op_minloc(hymn_float64, op)
    least = located(real(ranks - rank, c_double), rank)
    call hymn_all_reduce(hymn_in_place, least, op, group)
    call expect(least%value == 1 .and. least%place == ranks - 1, 'minloc')
    scaled = 2
    call hymn_all_reduce(hymn_in_place, scaled, hymn_op_premul_sum(real(rank, c_double)), group)
    call expect(scaled == ranks * (ranks - 1), 'premul_sum')
  end subroutine

  pure integer(c_size_t) function c_sizeof_particle() result(bytes)
    type(particle) :: one
    bytes = storage_size(one) / 8
  end function

  subroutine keep_heavier(inout, in, count, context) bind(C)
    type(c_ptr), value :: inout, in
    integer(c_size_t), value :: count
    type(c_ptr), value :: context
    integer(int8), pointer :: kept(:, :), others(:, :)  ! bytes: values may lie at any address
    type(particle) :: mine, other
    integer(c_size_t) :: i
    if (c_associated(context)) return
    call c_f_pointer(inout, kept, [c_sizeof_particle(), count])
    call c_f_pointer(in, others, [c_sizeof_particle(), count])
    do i = 1, count
      mine = transfer(kept(:, i), mine)
      other = transfer(others(:, i), other)
      if (other%mass > mine%mass) kept(:, i) = others(:, i)
    end do
  end subroutine

end module kinds_of_numbers
