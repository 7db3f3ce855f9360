! Every constant of the module is C's.
module constants
  use check
  implicit none
  private
  public :: test_constants

  type, bind(C) :: all_constants
    integer(c_int) :: results(12)
    type(hymn_datatype) :: dtypes(17)
    integer(c_int) :: numbers(14)
    real(c_double) :: times(2)
    type(hymn_op) :: ops(11)
  end type

  interface
    integer(c_int) function compare_constants(of) bind(C)
      import
      type(all_constants), intent(in) :: of
    end function
    integer(c_int) function compare_value_type(dtype, bytes) bind(C)
      import
      type(hymn_datatype), value :: dtype
      integer(c_int), value :: bytes
    end function
  end interface

contains

  subroutine test_constants()
    type(all_constants) :: of
    integer(c_int) :: where_it_differs
    character(len=60) :: text
    of%results = [hymn_success, hymn_usage_error, hymn_unsupported_error, hymn_config_error, &
      & hymn_timeout_error, hymn_aborted_error, hymn_peer_error, hymn_network_error, &
      & hymn_store_error, hymn_backend_error, hymn_resource_error, hymn_internal_error]
    of%dtypes = [hymn_bool, hymn_int8, hymn_uint8, hymn_int32, hymn_uint32, hymn_int64, &
      & hymn_uint64, hymn_float16, hymn_bfloat16, hymn_float32, hymn_float64, hymn_complex64, &
      & hymn_complex128, hymn_float8e4m3, hymn_float8e5m2, hymn_int16, hymn_uint16]
    of%numbers = [hymn_any_source, hymn_no_color, hymn_no_rank, hymn_max_tag, &
      & hymn_reproducible_default, hymn_reproducible_ranks, hymn_reproducible_runs, &
      & hymn_reproducible_placement, hymn_reproducible_size, hymn_thread_default, &
      & hymn_thread_single, hymn_thread_funneled, hymn_thread_serialized, hymn_thread_multiple]
    of%times = [hymn_timeout_default, hymn_timeout_none]
    of%ops = [hymn_sum, hymn_prod, hymn_min, hymn_max, hymn_band, hymn_bor, hymn_bxor, hymn_avg, &
      & hymn_land, hymn_lor, hymn_lxor]
    where_it_differs = compare_constants(of)
    write (text, '(a, i0)') "constants are C's; line * 1000 + index: ", where_it_differs
    call expect(where_it_differs == 0, trim(text))
    call expect(compare_value_type(hymn_value(1), 1) == 1, 'values of 1 byte')
    call expect(compare_value_type(hymn_value(16777215), 16777215) == 1, 'large values')
  end subroutine

end module constants
