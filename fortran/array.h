// Arrays of Fortran as buffers of hymn: of what type, how many elements, and where they lie.
#pragma once

#include <stdbool.h>

#include "fortran/report.h"

/// One buffer of a call.
typedef struct {
  const char* name;          ///< as the program gives it: "sendbuf"
  const CFI_cdesc_t* array;  ///< where it is from
  void* data;                ///< `count` elements, one after the other
  size_t count;
  hymnDataType_t dtype;
  bool is_logical;
  void* packed;  ///< memory for elements that do not lie so; NULL: `data` is the array's own
} FortranBuffer;

/// Whether it is hymn_in_place.
bool fortran_is_in_place(const CFI_cdesc_t* array);
/// What an array holds, without a look at how it lies. `dtype`, unless NULL, takes the place of
/// what the type of the array says, and has as many bytes. Reports an array that is
/// not allocated, or of no known size.
FortranBuffer fortran_open(FortranReport* report, const char* name, const CFI_cdesc_t* array,
                           const hymnDataType_t* dtype);
/// Copies what is not contiguous to memory of its own. To be followed by fortran_close.
void fortran_pack(FortranReport* report, FortranBuffer* buffer);
/// Reports what is not contiguous: for nonblocking operations, and those that a stream orders.
void fortran_refuse_strides(FortranReport* report, const FortranBuffer* buffer);
/// Copies what has been packed back, if `is_output` and the call has succeeded, and frees it.
void fortran_close(const FortranReport* report, FortranBuffer* buffer, bool is_output);
/// Reports buffers of one call that have different types.
void fortran_compare_types(FortranReport* report, const FortranBuffer* one,
                           const FortranBuffer* other);
/// Reports a reduction that the type does not have in Fortran: what is a logical stays one.
void fortran_check_op(FortranReport* report, const FortranBuffer* buffer, hymnOp_t op);

/// The `*n` sizes in a rank-1 array of integers, to be freed. NULL with a report where there are
/// negative ones, or no memory.
size_t* fortran_counts(FortranReport* report, const char* name, const CFI_cdesc_t* counts,
                       size_t* n);
