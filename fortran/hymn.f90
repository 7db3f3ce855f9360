! hymn for Fortran: the module of libhymn-fortran, over the C API (docs/fortran.md).
!
! Every procedure has stat and errmsg at its end, as statements of Fortran have: stat becomes
! hymn_success, or the error code, errmsg its text. Where stat is absent a failure ends the
! program with the text. Ranks are counted from 0, as those of MPI are; times are seconds.
!
! Thread safety: as the C API, whose functions these call.
module hymn
  use, intrinsic :: iso_c_binding
  implicit none
  private

  include 'types.inc'
  include 'constants.inc'
  include 'exports.inc'

  include 'groups.inc'
  include 'collectives.inc'
  include 'collectives_started.inc'
  include 'collectives_v.inc'
  include 'messages.inc'
  include 'operations.inc'

  ! Whether a handle is of nothing: of a group on a rank outside, of a work that has completed.
  interface hymn_is_null
    procedure is_null_world, is_null_group, is_null_work
  end interface

contains

  elemental logical function is_null_world(world) result(is_null)
    type(hymn_world), intent(in) :: world
    is_null = .not. c_associated(world%handle)
  end function

  elemental logical function is_null_group(group) result(is_null)
    type(hymn_group), intent(in) :: group
    is_null = .not. c_associated(group%handle)
  end function

  elemental logical function is_null_work(work) result(is_null)
    type(hymn_work), intent(in) :: work
    is_null = .not. c_associated(work%handle)
  end function

  ! The type of values of so many bytes, 1 to 16777215.
  elemental type(hymn_datatype) function hymn_value(bytes) result(dtype)
    integer, intent(in) :: bytes
    dtype = hymn_datatype(ishft(1_c_int, 24) + int(bytes, c_int))
  end function

  ! The sum of the inputs, each multiplied first by the factor that its own rank gives.
  type(hymn_op) function hymn_op_premul_sum(factor) result(op)
    real(c_double), intent(in) :: factor
    op = hymn_op(c_op_premul_sum(factor))
  end function

  ! An operation on values of so many bytes. With commutative it may be applied in any order, else
  ! in that of the group's ranks.
  subroutine hymn_op_create(function, value_bytes, commutative, op, context, stat, errmsg)
    procedure(hymn_op_function) :: function
    integer(c_size_t), intent(in) :: value_bytes
    logical, intent(in) :: commutative
    type(hymn_op), intent(out) :: op
    type(c_ptr), optional, intent(in) :: context
    integer(c_int), optional, intent(out) :: stat
    character(len=*, kind=c_char), optional, intent(inout) :: errmsg
    integer(c_int) :: result
    integer(c_int) :: may_swap
    may_swap = merge(1_c_int, 0_c_int, commutative)
    call c_op_create(function, value_bytes, may_swap, op, context, result)
    call report(result, stat, errmsg)
  end subroutine

  ! Moves the operation forward; where it has completed, the work is freed, and null.
  subroutine hymn_test(work, done, status, stat, errmsg)
    type(hymn_work), intent(inout) :: work
    logical, intent(out) :: done
    type(hymn_status), optional, intent(out) :: status
    integer(c_int), optional, intent(out) :: stat
    character(len=*, kind=c_char), optional, intent(inout) :: errmsg
    integer(c_int) :: is_done, result
    call c_test(work, is_done, status, result)
    done = is_done /= 0
    call report(result, stat, errmsg)
  end subroutine

  ! Whether a message has come that hymn_recv would take; info stays as it was where none has.
  subroutine hymn_iprobe(source, tag, group, found, info, stat, errmsg)
    integer(c_int), intent(in) :: source, tag
    type(hymn_group), intent(in) :: group
    logical, intent(out) :: found
    type(hymn_message), intent(inout) :: info
    integer(c_int), optional, intent(out) :: stat
    character(len=*, kind=c_char), optional, intent(inout) :: errmsg
    integer(c_int) :: is_found, result
    call c_iprobe(source, tag, group, is_found, info, result)
    found = is_found /= 0
    call report(result, stat, errmsg)
  end subroutine

  ! What the C functions do for all other procedures.
  subroutine report(result, stat, errmsg)
    integer(c_int), intent(in) :: result
    integer(c_int), optional, intent(out) :: stat
    character(len=*, kind=c_char), optional, intent(inout) :: errmsg
    if (present(stat)) stat = result
    if (result == hymn_success) return
    if (.not. present(stat)) call c_end_program()
    if (present(errmsg)) errmsg = hymn_last_error()
  end subroutine

  ! The text of the last failure on this thread, '' if there was none.
  function hymn_last_error() result(text)
    character(len=:, kind=c_char), allocatable :: text
    integer(c_size_t) :: length
    length = c_error_length()
    allocate (character(len=length, kind=c_char) :: text)
    call c_error_copy(text, length)
  end function

  ! What a code means, in a few words.
  function hymn_error_string(stat) result(text)
    integer(c_int), intent(in) :: stat
    character(len=:, kind=c_char), allocatable :: text
    text = text_of(c_error_string(stat))
  end function

  function hymn_version() result(text)
    character(len=:, kind=c_char), allocatable :: text
    text = text_of(c_version())
  end function

  ! The tag of the group: '' for that of all ranks.
  subroutine hymn_group_tag(group, tag, stat, errmsg)
    type(hymn_group), intent(in) :: group
    character(len=:, kind=c_char), allocatable, intent(out) :: tag
    integer(c_int), optional, intent(out) :: stat
    character(len=*, kind=c_char), optional, intent(inout) :: errmsg
    type(c_ptr) :: text
    integer(c_int) :: result
    call c_group_tag(group, text, result)
    tag = text_of(text)
    call report(result, stat, errmsg)
  end subroutine

  function text_of(from) result(text)
    type(c_ptr), intent(in) :: from
    character(len=:, kind=c_char), allocatable :: text
    integer(c_size_t) :: length
    length = c_text_length(from)
    allocate (character(len=length, kind=c_char) :: text)
    call c_text_copy(from, text, length)
  end function

  ! Before a failure ends the program: what it has written so far is not lost.
  subroutine flush_units() bind(C, name='hymn_fortran_flush')
    call flush()
  end subroutine

end module hymn
