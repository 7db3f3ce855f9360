// Types of Fortran as those of hymn.
#pragma once

#include <stdbool.h>

#include "fortran/report.h"

enum { fortran_type_bytes = 64 };

/// "real(8)", for messages.
void fortran_name_type(const CFI_cdesc_t* array, char text[fortran_type_bytes]);
bool fortran_is_logical(const CFI_cdesc_t* array);
/// The type of an element: numbers and logicals are known; characters, derived types, and numbers
/// that hymn does not know, are values of their size. `given`, unless NULL, takes its place, and
/// must have as many bytes. Reports what is of no size that is known, as what is polymorphic.
hymnDataType_t fortran_dtype(FortranReport* report, const char* name, const CFI_cdesc_t* array,
                             const hymnDataType_t* given);
