// Says what to do, once, to whoever compiles for an older C++ than the headers are written in.
// Every public C++ header includes it before anything else.
#pragma once

#if __cplusplus < 202002L
#error "hymn needs C++20: compile with -std=c++20"
// No such file: only that ends the compilation here, before pages of errors that follow from it.
#include "hymn/nothing_without_C++20"
#endif
