// Which instruction sets the kernels are compiled for: the baseline, AVX2 and AVX-512 (on Arm, what
// Highway offers there). The steps between would add compile time and little speed.
//
// Included before any header of Highway.
#pragma once

#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
