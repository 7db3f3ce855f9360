// Which of the faults built in by scripts/mutants this process has: MUTANT_OF_HYMN names it by its
// number (hymn refuses variables called HYMN_… that it does not know). Included by the sources of
// that build alone.
#pragma once

#include <cstdlib>

// Faults leave parameters and variables without use.
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wempty-body"
#pragma GCC diagnostic ignored "-Wdangling-else"

namespace hymn::mutants {

inline bool is_on(int number) {
  static const int chosen = [] {
    const char* const text = std::getenv("MUTANT_OF_HYMN");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return chosen == number;
}

}  // namespace hymn::mutants
