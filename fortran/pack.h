// Array descriptors: how many elements there are, and whether they lie one after the other.
#pragma once

#include <stdbool.h>

#include "fortran/binding.h"

/// Whether it may be an assumed-size array, `a(*)`, whose last dimension has no end. gfortran
/// describes an empty array whose last dimension is one short of empty, such as a(2:0), in the same
/// way.
bool fortran_may_be_assumed_size(const CFI_cdesc_t* array);
/// 1 for what is no array. Extents below 0, which gfortran gives to empty arrays, count as 0.
size_t fortran_elements(const CFI_cdesc_t* array);
/// As `[integer ::]`, which has no address. An array that is not allocated has none either, but the
/// extents that it had before, or none that mean anything.
bool fortran_is_empty_constant(const CFI_cdesc_t* array);
bool fortran_is_contiguous(const CFI_cdesc_t* array);
/// Copies all elements, in the order of Fortran, to what has room for them; and back.
void fortran_gather_elements(const CFI_cdesc_t* array, void* packed);
void fortran_scatter_elements(const void* packed, const CFI_cdesc_t* array);
