// A call that has been made and not been answered yet.
#pragma once

#include "hymn/standard.hpp"  // first

#include <exception>
#include <optional>
#include <string>
#include <utility>

#include "hymn/future.hpp"
#include "hymn/rpc_buffer.hpp"
#include "hymn/rpc_function.hpp"
#include "hymn/standard_parts.hpp"
#include "hymn/timeout.hpp"

namespace hymn::rpc {

struct CallOptions {
  /// How long until the answer; unset: AgentOptions::timeout. A worker does not begin a call whose
  /// time has passed.
  Timeout timeout{};
};

/// Where an error comes from that was thrown at another worker: a base, beside its own type, of
/// what is thrown here.
class HYMN_API RemoteOrigin {
 public:
  RemoteOrigin(int rank, std::string worker, std::string function, std::string site)
      : rank_(rank),
        worker_(std::move(worker)),
        function_(std::move(function)),
        site_(std::move(site)) {}
  virtual ~RemoteOrigin();
  RemoteOrigin(const RemoteOrigin&) = default;
  RemoteOrigin& operator=(const RemoteOrigin&) = default;

  int rank() const noexcept { return rank_; }
  const std::string& worker() const noexcept { return worker_; }
  const std::string& function() const noexcept { return function_; }
  /// The file and line that registers the function there.
  const std::string& site() const noexcept { return site_; }

 private:
  int rank_;
  std::string worker_;
  std::string function_;
  std::string site_;
};

/// An exception of a type that this process does not know how to make: its text.
class HYMN_API RemoteError : public std::runtime_error, public RemoteOrigin {
 public:
  RemoteError(const std::string& text, RemoteOrigin origin)
      : std::runtime_error(text), RemoteOrigin(std::move(origin)) {}
  ~RemoteError() override;
};

namespace detail {

class CallWait;

/// Who gets the answer of a call. The first outcome stays.
class HYMN_API Pending {
 public:
  Pending();
  virtual ~Pending();
  Pending(const Pending&) = delete;
  Pending& operator=(const Pending&) = delete;

  void answered(Packed& result);
  void failed(std::exception_ptr error);

  const std::shared_ptr<CallWait>& wait() const { return wait_; }

 protected:
  /// Waits as a thread of an agent must: others take its place meanwhile.
  hymn::detail::Drive drive() const;
  virtual void take(Packed& result) = 0;
  virtual void take_error(std::exception_ptr error) = 0;

 private:
  std::shared_ptr<CallWait> wait_;
};
using PendingPtr = std::shared_ptr<Pending>;

template <class R>
class PendingValue final : public Pending {
 public:
  PendingValue() : state_(std::make_shared<hymn::detail::FutureState<R>>(drive())) {}
  Future<R> future() const { return Future<R>(state_); }

 protected:
  void take(Packed& result) override {
    if constexpr (std::is_void_v<R>) {
      state_->set_value({});
    } else {
      R value{};
      unpack(result, value);
      state_->set_value(std::move(value));
    }
  }
  void take_error(std::exception_ptr error) override { state_->set_error(std::move(error)); }

 private:
  std::shared_ptr<hymn::detail::FutureState<R>> state_;
};

}  // namespace detail
}  // namespace hymn::rpc
