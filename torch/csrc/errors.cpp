// From hymn's codes to the exceptions that torch's users expect.
#include "errors.hpp"

#include <c10/util/Exception.h>

namespace hymn_torch {

void throw_value_error(const std::string& text) { C10_THROW_ERROR(ValueError, text); }

void throw_not_implemented(const std::string& text) { C10_THROW_ERROR(NotImplementedError, text); }

void throw_error(hymnResult_t result, const std::string& text) {
  switch (result) {
    case hymnUsageError:
    case hymnConfigError:
      throw_value_error(text);
    case hymnUnsupportedError:
      throw_not_implemented(text);
    case hymnNetworkError:
      C10_THROW_ERROR(DistNetworkError, text);
    case hymnStoreError:
      C10_THROW_ERROR(DistStoreError, text);
    default:
      C10_THROW_ERROR(DistBackendError, text);
  }
}

void throw_failure(hymnResult_t result, const std::string& text) {
  throw_error(result == hymnUsageError ? hymnBackendError : result, text);
}

}  // namespace hymn_torch
