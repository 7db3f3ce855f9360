#include "hymn/error.hpp"

#include <fmt/format.h>

#include <string_view>

namespace hymn {
namespace {

std::string full_text(const std::string& problem, const ErrorContext& context) {
  std::string where;
  auto add = [&where](const std::string& part) {
    if (!where.empty()) where += ", ";
    where += part;
  };
  if (context.rank >= 0) add(fmt::format("rank {}", context.rank));
  if (!context.group.empty()) add(fmt::format("group '{}'", context.group));
  if (!context.operation.empty()) add(context.operation);
  std::string text = where.empty() ? problem : fmt::format("{} [{}]", problem, where);
  if (!context.remedy.empty()) text += fmt::format("; remedy: {}", context.remedy);
  return text;
}

// Who searches logs for timeouts finds them by the word. One that is thrown again has it already.
std::string problem_text(ErrorKind kind, const std::string& problem) {
  constexpr std::string_view word = "timeout: ";
  return kind != ErrorKind::timeout || problem.starts_with(word) ? problem
                                                                 : std::string(word) + problem;
}

}  // namespace

const char* to_string(ErrorKind kind) noexcept {
  switch (kind) {
    case ErrorKind::usage:
      return "usage";
    case ErrorKind::unsupported:
      return "unsupported";
    case ErrorKind::config:
      return "config";
    case ErrorKind::timeout:
      return "timeout";
    case ErrorKind::aborted:
      return "aborted";
    case ErrorKind::peer:
      return "peer";
    case ErrorKind::network:
      return "network";
    case ErrorKind::store:
      return "store";
    case ErrorKind::backend:
      return "backend";
    case ErrorKind::resource:
      return "resource";
    case ErrorKind::internal:
      return "internal";
  }
  return "unknown";
}

Error::Error(ErrorKind kind, const std::string& problem, ErrorContext context)
    : std::runtime_error(full_text(problem_text(kind, problem), context)),
      kind_(kind),
      problem_(problem_text(kind, problem)),
      context_(std::move(context)) {}

// Out of line, so that each type has one home for its type information: exceptions are caught
// across the boundary of the shared library.
Error::~Error() = default;
UsageError::~UsageError() = default;
UnsupportedError::~UnsupportedError() = default;
ConfigError::~ConfigError() = default;
TimeoutError::~TimeoutError() = default;
AbortedError::~AbortedError() = default;
PeerError::~PeerError() = default;
NetworkError::~NetworkError() = default;
StoreError::~StoreError() = default;
ResourceError::~ResourceError() = default;
BackendError::~BackendError() = default;

}  // namespace hymn
