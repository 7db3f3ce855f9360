// Counts what C++ code takes from the heap. Linking allocation_count.cpp replaces operator new in
// the whole program, libhymn.so included; malloc, which MPI uses, is not counted.
#pragma once

#include <cstddef>

namespace hymn::test {

/// By the calling thread, since it began.
std::size_t allocations_of_this_thread();

}  // namespace hymn::test
