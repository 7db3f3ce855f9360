// Typed errors. docs/errors.md says, kind by kind, what can still be used afterwards.
//
// Every text names the rank, the group, the operation and, where there is one, the remedy.
#pragma once

#include "hymn/standard.hpp"  // first

#include <stdexcept>
#include <string>
#include <vector>

#include "hymn/export.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

enum class ErrorKind : unsigned char {
  usage,        ///< the call is wrong; nothing was sent
  unsupported,  ///< the call is well formed, but this dtype, operation or machine cannot do it
  config,       ///< an environment variable or option is unknown or malformed
  timeout,      ///< the time given has passed
  aborted,      ///< the group was given up earlier; the text carries the first reason
  peer,         ///< another rank failed
  network,      ///< a connection was lost or could not be made
  store,        ///< a key-value store failed or did not have a key in time
  backend,      ///< MPI, CUDA or NCCL reported a failure; carries its code
  resource,     ///< memory, descriptors or the like ran out
  internal,     ///< a fault in hymn itself
};

HYMN_API const char* to_string(ErrorKind kind) noexcept;

/// Who failed, in what, and what to do about it. Empty fields are left out of the text.
struct ErrorContext {
  int rank = -1;            ///< global rank
  std::string group{};      ///< the group's name
  std::string operation{};  ///< "all_reduce #41"
  std::string remedy{};     ///< a sentence that tells the user what to do
  /// Global ranks that were waited for and have not arrived, or have failed; they are in the text,
  /// too.
  std::vector<int> missing{};
};

/// The root of every exception that hymn throws.
class HYMN_API Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& problem, ErrorContext context = {});
  ~Error() override;
  Error(const Error&) = default;
  Error& operator=(const Error&) = default;

  ErrorKind kind() const noexcept { return kind_; }
  const ErrorContext& context() const noexcept { return context_; }
  /// The problem alone, without rank, group, operation and remedy.
  const std::string& problem() const noexcept { return problem_; }

 private:
  ErrorKind kind_;
  std::string problem_;
  ErrorContext context_;
};

class HYMN_API UsageError : public Error {
 public:
  explicit UsageError(const std::string& problem, ErrorContext context = {})
      : Error(ErrorKind::usage, problem, std::move(context)) {}
  ~UsageError() override;
};

class HYMN_API UnsupportedError : public Error {
 public:
  explicit UnsupportedError(const std::string& problem, ErrorContext context = {})
      : Error(ErrorKind::unsupported, problem, std::move(context)) {}
  ~UnsupportedError() override;
};

class HYMN_API ConfigError : public Error {
 public:
  explicit ConfigError(const std::string& problem, ErrorContext context = {})
      : Error(ErrorKind::config, problem, std::move(context)) {}
  ~ConfigError() override;
};

class HYMN_API TimeoutError : public Error {
 public:
  TimeoutError(const std::string& problem, Duration waited, ErrorContext context = {})
      : Error(ErrorKind::timeout, problem, std::move(context)), waited_(waited) {}
  ~TimeoutError() override;
  Duration waited() const noexcept { return waited_; }

 private:
  Duration waited_;
};

class HYMN_API AbortedError : public Error {
 public:
  explicit AbortedError(const std::string& problem, ErrorContext context = {})
      : Error(ErrorKind::aborted, problem, std::move(context)) {}
  ~AbortedError() override;
};

class HYMN_API PeerError : public Error {
 public:
  explicit PeerError(const std::string& problem, ErrorContext context = {})
      : Error(ErrorKind::peer, problem, std::move(context)) {}
  ~PeerError() override;
};

class HYMN_API NetworkError : public Error {
 public:
  explicit NetworkError(const std::string& problem, ErrorContext context = {})
      : Error(ErrorKind::network, problem, std::move(context)) {}
  ~NetworkError() override;
};

class HYMN_API StoreError : public Error {
 public:
  explicit StoreError(const std::string& problem, ErrorContext context = {})
      : Error(ErrorKind::store, problem, std::move(context)) {}
  ~StoreError() override;
};

class HYMN_API ResourceError : public Error {
 public:
  explicit ResourceError(const std::string& problem, ErrorContext context = {})
      : Error(ErrorKind::resource, problem, std::move(context)) {}
  ~ResourceError() override;
};

/// A failure that another library reported: its name ("MPI") and its own code are kept.
class HYMN_API BackendError : public Error {
 public:
  BackendError(const std::string& problem, std::string backend, int code, ErrorContext context = {})
      : Error(ErrorKind::backend, problem, std::move(context)),
        backend_(std::move(backend)),
        code_(code) {}
  ~BackendError() override;
  const std::string& backend() const noexcept { return backend_; }
  int code() const noexcept { return code_; }

 private:
  std::string backend_;
  int code_;
};

}  // namespace hymn
