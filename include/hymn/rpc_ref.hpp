// References to values that live at another worker.
#pragma once

#include "hymn/standard.hpp"  // first

#include <string>
#include <typeinfo>
#include <utility>

#include "hymn/future.hpp"
#include "hymn/object_format.hpp"
#include "hymn/rpc_buffer.hpp"
#include "hymn/rpc_call.hpp"
#include "hymn/rpc_function.hpp"
#include "hymn/standard_parts.hpp"
#include "hymn/timeout.hpp"

namespace hymn::rpc {

/// A worker of an agent's world.
struct WorkerInfo {
  std::string name{};
  int rank = -1;  ///< global
  static auto object_fields(auto& self) { return std::tie(self.name, self.rank); }
};

namespace detail {

using RefPtr = std::shared_ptr<RefState>;

HYMN_API WorkerInfo owner_of(const RefPtr& ref);
HYMN_API bool is_owned_here(const RefPtr& ref);
/// Waits until the value is made. UsageError where it is kept elsewhere.
HYMN_API std::shared_ptr<void> local_value_of(const RefPtr& ref, const std::type_info& type,
                                              Timeout timeout);
HYMN_API void fetch_value(const RefPtr& ref, const PendingPtr& pending, Timeout timeout);
HYMN_API void wait_made(const RefPtr& ref, const PendingPtr& pending, Timeout timeout);
HYMN_API void put_ref(ObjectWriter& out, const RefPtr& ref, const std::type_info& type);
HYMN_API RefPtr get_ref(ObjectReader& in, const std::type_info& type);

}  // namespace detail

/// Keeps a value alive at its owner. A handle, cheap to copy; as an argument or result of a call it
/// gives the other worker a handle of its own. The value goes when the last handle has gone, on
/// whatever worker; those of a worker that has died go with it. Thread-safe.
template <class T>
class RemoteRef {
 public:
  RemoteRef() = default;
  explicit RemoteRef(detail::RefPtr state) : state_(std::move(state)) {}

  bool valid() const { return state_ != nullptr; }
  WorkerInfo owner() const { return detail::owner_of(state_); }
  bool is_owner() const { return detail::is_owned_here(state_); }

  /// A copy of the value, which is waited for. Throws what making it has thrown; PeerError, naming
  /// the owner, where that has died; TimeoutError.
  T to_here(Timeout timeout = {}) const
    requires Object<T>
  {
    return to_here_async(timeout).get();
  }
  Future<T> to_here_async(Timeout timeout = {}) const
    requires Object<T>
  {
    auto pending = std::make_shared<detail::PendingValue<T>>();
    detail::fetch_value(state_, pending, timeout);
    return pending->future();
  }
  /// Ready when the value is made; with the error, where making it has failed.
  Future<void> made(Timeout timeout = {}) const {
    auto pending = std::make_shared<detail::PendingValue<void>>();
    detail::wait_made(state_, pending, timeout);
    return pending->future();
  }
  /// The value itself, at its owner, once it is made; for as long as a handle is held. Throws
  /// UsageError elsewhere.
  T& local_value(Timeout timeout = {}) const {
    return *static_cast<T*>(detail::local_value_of(state_, typeid(T), timeout).get());
  }

  const detail::RefPtr& state() const { return state_; }

 private:
  detail::RefPtr state_{};
};

}  // namespace hymn::rpc

template <class T>
struct hymn::ObjectFormat<hymn::rpc::RemoteRef<T>> {
  static void write(ObjectWriter& out, const rpc::RemoteRef<T>& ref) {
    rpc::detail::put_ref(out, ref.state(), typeid(T));
  }
  static void read(ObjectReader& in, rpc::RemoteRef<T>& ref) {
    ref = rpc::RemoteRef<T>(rpc::detail::get_ref(in, typeid(T)));
  }
};
