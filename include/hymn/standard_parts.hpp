// Parts of the standard library that hymn's headers need, without what else is in their headers:
// durations and clocks, std::function, smart pointers, the concepts of ranges.
//
// In C++20 <chrono>, <functional>, <memory> and <ranges> bring calendars, formatting, searchers,
// parallel algorithms and views: half of what it would take to compile hymn.hpp. GCC's library has
// the parts in files of their own.
#pragma once

#include "hymn/standard.hpp"  // first

#if __has_include(<bits/chrono.h>) && __has_include(<bits/ranges_base.h>) && \
    __has_include(<bits/shared_ptr.h>) && __has_include(<bits/std_function.h>) && \
    __has_include(<bits/unique_ptr.h>)
// IWYU pragma: begin_exports
#include <initializer_list>
#include <iterator>
// After those two, which the third takes to be there.
#include <bits/chrono.h>
#include <bits/ranges_base.h>
#include <bits/shared_ptr.h>
#include <bits/std_function.h>
#include <bits/unique_ptr.h>
// IWYU pragma: end_exports
#else
// IWYU pragma: begin_exports
#include <chrono>
#include <functional>
#include <memory>
#include <ranges>
// IWYU pragma: end_exports
#endif
