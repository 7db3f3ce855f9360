// Array descriptors: how many elements there are, and whether they lie one after the other.
#pragma once

#include <stdbool.h>

#include "fortran/binding.h"

/// As `a(*)`: its last dimension has no end.
bool fortran_is_assumed_size(const CFI_cdesc_t* array);
/// 1 for what is no array.
size_t fortran_elements(const CFI_cdesc_t* array);
bool fortran_is_contiguous(const CFI_cdesc_t* array);
/// Copies all elements, in the order of Fortran, to what has room for them; and back.
void fortran_gather_elements(const CFI_cdesc_t* array, void* packed);
void fortran_scatter_elements(const void* packed, const CFI_cdesc_t* array);
