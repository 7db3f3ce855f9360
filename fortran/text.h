// Characters of Fortran as C has them.
#pragma once

#include "fortran/report.h"

/// A copy without trailing blanks, to be freed; NULL where it is absent, or there is no
/// memory for it, which is reported.
char* fortran_text(FortranReport* report, const CFI_cdesc_t* characters);
