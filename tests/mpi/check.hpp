// What the MPI programs check with. A failed check ends the process at once, and so the whole job.
#pragma once

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>

#include "hymn/hymn.hpp"
#include "hymn/interop_mpi.hpp"

namespace hymn::test {

[[noreturn]] inline void fail(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  std::fflush(stderr);
  // Nothing that waits for the other ranks may run any more.
  std::_Exit(1);
}

/// `call` must throw an E with all of `words` in its text.
template <class E>
void check_throws(const char* file, int line, const std::function<void()>& call,
                  std::initializer_list<std::string_view> words) {
  try {
    call();
  } catch (const E& error) {
    const std::string text = error.what();
    for (const std::string_view word : words)
      if (text.find(word) == std::string::npos)
        fail(file, line, "'" + std::string(word) + "' is missing in: " + text);
    return;
  } catch (const std::exception& error) {
    fail(file, line, std::string("another type of error: ") + error.what());
  }
  fail(file, line, "nothing is thrown");
}

/// main() of a program with one argument, which tells `run` what to do.
inline int run_told(int argc, char** argv, const std::function<void(const std::string&)>& run) {
  if (argc != 2) return 2;
  run(argv[1]);
  return 0;
}

}  // namespace hymn::test

#define CHECK(condition)                                                             \
  do {                                                                               \
    if (!(condition)) ::hymn::test::fail(__FILE__, __LINE__, "failed: " #condition); \
  } while (false)

#define CHECK_THROWS(type, call, ...)                                                    \
  ::hymn::test::check_throws<type>(__FILE__, __LINE__, [&] { static_cast<void>(call); }, \
                                   {__VA_ARGS__})
