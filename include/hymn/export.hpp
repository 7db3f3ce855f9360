// HYMN_API marks what the shared library shows to its users; everything else stays inside.
#pragma once

#if defined(__GNUC__)
#define HYMN_API __attribute__((visibility("default")))
#else
#define HYMN_API
#endif
