// Which instruction sets the kernels are compiled for: the baseline, AVX2 and AVX-512 (on Arm, what
// Highway offers there). The steps between would add compile time and little speed.
//
// Included before any header of Highway.
#pragma once

// The baseline is one element at a time with every compiler, as with g++ 12: Highway's imitation of
// vectors by arrays takes as long to compile as all the rest.
#define HWY_BROKEN_EMU128 1

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
// Each of them takes a minute to compile with a sanitizer.
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#endif
#endif
#ifndef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4)
#endif
