// Errors of arrays.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "hymn/error.hpp"

namespace hymn::functional::detail {

[[noreturn]] inline void refuse(const std::string& operation, const std::string& problem,
                                const std::string& remedy = {}) {
  throw UsageError(problem, {.operation = operation, .remedy = remedy});
}

/// "[2, 3]"
template <class Number>
std::string listed(std::span<const Number> numbers) {
  std::string text = "[";
  for (const Number number : numbers)
    text += (text.size() > 1 ? ", " : "") + std::to_string(number);
  return text + "]";
}
template <class List>
std::string listed(const List& numbers) {
  return listed(std::span<const typename List::value_type>(numbers));
}

}  // namespace hymn::functional::detail
