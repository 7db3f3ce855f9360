// Array descriptors as the Fortran compiler that this was configured with lays them out. A C
// compiler of another make may bring an ISO_Fortran_binding.h of its own, which is not to be taken.
#pragma once

#include <stddef.h>

#include HYMN_FORTRAN_BINDING_HEADER
