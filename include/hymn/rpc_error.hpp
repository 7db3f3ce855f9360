// Exceptions of a program's own, which arrive from other workers as what they are.
#pragma once

#include "hymn/standard.hpp"  // first

#include <concepts>
#include <exception>
#include <string>
#include <typeinfo>
#include <utility>

#include "hymn/rpc_call.hpp"
#include "hymn/standard_parts.hpp"

namespace hymn::rpc {

namespace detail {

using MakeError =
    std::function<std::exception_ptr(const std::string& text, const RemoteOrigin& origin)>;
HYMN_API void add_error(const std::type_info& type, const std::type_info& thrown, std::string name,
                        MakeError make);

template <class E>
class ThrownThere final : public E, public RemoteOrigin {
 public:
  ThrownThere(const std::string& text, const RemoteOrigin& origin)
      : E(text), RemoteOrigin(origin) {}
};

}  // namespace detail

/// Exceptions of type E arrive as E, made of their text. Others that are neither hymn's nor the
/// standard library's arrive as RemoteError. All workers register the same name; thread-safe.
template <class E>
  requires std::derived_from<E, std::exception> && std::constructible_from<E, std::string>
void register_error(std::string name) {
  detail::add_error(typeid(E), typeid(detail::ThrownThere<E>), std::move(name),
                    [](const std::string& text, const RemoteOrigin& origin) {
                      return std::make_exception_ptr(detail::ThrownThere<E>(text, origin));
                    });
}

}  // namespace hymn::rpc
