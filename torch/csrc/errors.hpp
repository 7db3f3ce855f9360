// From hymn's codes to the exceptions that torch's users expect.
#pragma once

#include <hymn/hymn.h>

#include <exception>
#include <string>

namespace hymn_torch {

/// Throws what `result` means in Python: ValueError for a call that is wrong, NotImplementedError
/// for what cannot be done, a DistError of torch's for what failed; with `text`.
[[noreturn]] void throw_error(hymnResult_t result, const std::string& text);
/// The same of an operation that was under way: then it is none of this call's arguments alone that
/// is wrong, but what the ranks called together (DistBackendError).
[[noreturn]] void throw_failure(hymnResult_t result, const std::string& text);

/// Throws unless the call of hymn's that this thread has just made succeeded.
inline void check(hymnResult_t result) {
  if (result != hymnSuccess) [[unlikely]]
    throw_error(result, hymnGetLastError());
}

/// A call that is wrong: ValueError.
[[noreturn]] void throw_value_error(const std::string& text);
/// What is not there: NotImplementedError, which is a RuntimeError.
[[noreturn]] void throw_not_implemented(const std::string& text);

}  // namespace hymn_torch
