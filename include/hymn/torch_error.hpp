// Errors of the headers torch_*.hpp: those of hymn's C API as exceptions.
#pragma once

#include "hymn/standard.hpp"  // first

#include <string>

#include "hymn/hymn.h"
#if _GLIBCXX_USE_CXX11_ABI
#include "hymn/error.hpp"  // of the C++ API, which has this ABI
#else
#include <stdexcept>
#endif

namespace hymn::torch {

namespace detail {
#if _GLIBCXX_USE_CXX11_ABI
/// So that a program catches hymn::Error, whichever of hymn's calls has failed.
class ErrorBase : public hymn::Error {
 public:
  ErrorBase(hymnResult_t code, const std::string& text)
      : hymn::Error(static_cast<ErrorKind>(static_cast<int>(code) - 1), text) {}
};
#else
class ErrorBase : public std::runtime_error {
 public:
  ErrorBase(hymnResult_t, const std::string& text) : std::runtime_error(text) {}
};
#endif
}  // namespace detail

/// A failure that hymn's C API has told: a hymn::Error, but with the older ABI of the C++ library
/// (_GLIBCXX_USE_CXX11_ABI=0), in which there is none.
class Error : public detail::ErrorBase {
 public:
  Error(hymnResult_t code, const std::string& text) : ErrorBase(code, text), code_(code) {}
  hymnResult_t code() const { return code_; }

 private:
  hymnResult_t code_;
};

/// Throws Error, with hymnGetLastError(), unless it is hymnSuccess.
inline void check(hymnResult_t result) {
  if (result != hymnSuccess) throw Error(result, hymnGetLastError());
}

namespace detail {

/// What went wrong, without the name of the function in C: the program has called another.
inline std::string last_problem() {
  std::string text = hymnGetLastError();
  const std::size_t end = text.find(": ");
  if (text.rfind("hymn", 0) == 0 && end != std::string::npos) text.erase(0, end + 2);
  return text;
}

/// The same with what the program has called, in place of the reducer's function that was at it.
inline std::string last_problem(const std::string& call) {
  static const std::string reducer = "GradientReducer";
  std::string text = last_problem();
  const std::size_t begin = text.find(reducer);
  if (begin == std::string::npos) return call + ": " + text;
  std::size_t end = begin + reducer.size();
  if (text.compare(end, 2, "::") == 0) end = text.find("()", end) + 2;
  return text.replace(begin, end - begin, call);
}

/// check() for the headers' own calls: of collectives, whose errors say which they are; and of a
/// reducer, for what the program has called.
inline void check_own(hymnResult_t result) {
  if (result != hymnSuccess) throw Error(result, last_problem());
}
inline void check_in(const char* call, hymnResult_t result) {
  if (result != hymnSuccess) throw Error(result, last_problem(call));
}

}  // namespace detail
}  // namespace hymn::torch
