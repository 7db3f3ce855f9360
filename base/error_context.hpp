// Errors gain their context on the way up: a kernel knows what is wrong, the group knows where.
#pragma once

#include <exception>

#include "hymn/error.hpp"

namespace hymn {

/// For use in a catch block: throws the current exception again, with the empty fields of its
/// context filled in if it is an hymn::Error, as it is otherwise. std::bad_alloc becomes a
/// ResourceError.
[[noreturn]] void rethrow_with(const ErrorContext& context);

/// The same for an exception that is not thrown now.
std::exception_ptr with_context(const std::exception_ptr& error, const ErrorContext& context);

}  // namespace hymn
