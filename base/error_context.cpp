#include "base/error_context.hpp"

#include <new>

namespace hymn {
namespace {

ErrorContext merged(const ErrorContext& own, const ErrorContext& outer) {
  ErrorContext context = own;
  if (context.rank < 0) context.rank = outer.rank;
  if (context.group.empty()) context.group = outer.group;
  if (context.operation.empty()) context.operation = outer.operation;
  if (context.remedy.empty()) context.remedy = outer.remedy;
  return context;
}

[[noreturn]] void throw_merged(const Error& error, const ErrorContext& outer) {
  const ErrorContext context = merged(error.context(), outer);
  const std::string& problem = error.problem();
  switch (error.kind()) {
    case ErrorKind::usage:
      throw UsageError(problem, context);
    case ErrorKind::unsupported:
      throw UnsupportedError(problem, context);
    case ErrorKind::config:
      throw ConfigError(problem, context);
    case ErrorKind::aborted:
      throw AbortedError(problem, context);
    case ErrorKind::peer:
      throw PeerError(problem, context);
    case ErrorKind::network:
      throw NetworkError(problem, context);
    case ErrorKind::store:
      throw StoreError(problem, context);
    case ErrorKind::resource:
      throw ResourceError(problem, context);
    case ErrorKind::timeout:
      throw TimeoutError(problem, dynamic_cast<const TimeoutError&>(error).waited(), context);
    case ErrorKind::backend: {
      const auto& backend = dynamic_cast<const BackendError&>(error);
      throw BackendError(problem, backend.backend(), backend.code(), context);
    }
    case ErrorKind::internal:
      break;
  }
  throw Error(error.kind(), problem, context);
}

}  // namespace

void rethrow_with(const ErrorContext& context) {
  try {
    throw;
  } catch (const Error& error) {
    throw_merged(error, context);
  } catch (const std::bad_alloc&) {
    ErrorContext full = context;
    full.remedy = "free memory, or reduce the size of the operation";
    throw ResourceError("no memory for the buffers of this operation", full);
  }
}

std::exception_ptr with_context(const std::exception_ptr& error, const ErrorContext& context) {
  try {
    try {
      std::rethrow_exception(error);
    } catch (...) {
      rethrow_with(context);
    }
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace hymn
