// HYMN_API marks what the shared library shows to its users; everything else stays inside.
#pragma once

#if defined(__GNUC__)
#define HYMN_API __attribute__((visibility("default")))
#else
#define HYMN_API
#endif

// HYMN_INLINE marks what is always inlined: so that whoever it calls sees its own caller, where the
// user's code makes a call; or so that nothing of what it makes lies in memory.
#if defined(__GNUC__)
#define HYMN_INLINE __attribute__((always_inline)) inline
#else
#define HYMN_INLINE inline
#endif
