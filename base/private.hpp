// HYMN_PRIVATE marks what libhymn.so shows to the `hymn` command and its libraries alone, which so
// need no second copy of it. It is no part of the ABI: its names tell that ("hymn_private", a tag
// of the mangled name), and cmake/hymn.map gives them a version of their own.
#pragma once

#if defined(__GNUC__)
#define HYMN_PRIVATE __attribute__((visibility("default"), abi_tag("hymn_private")))
#else
#define HYMN_PRIVATE
#endif
