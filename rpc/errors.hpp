// Exceptions as bytes, and back.
#pragma once

#include <cstddef>
#include <exception>

#include "hymn/rpc_call.hpp"

namespace hymn::rpc::detail {

/// What an error fits into, for it is cut where it is longer. No worker takes less.
inline constexpr std::size_t most_error_bytes = std::size_t{32} << 10;

/// `here`: this worker, and the function that has thrown. What comes from further away keeps its
/// origin.
Packed pack_error(const std::exception_ptr& error, const RemoteOrigin& here);

/// As the type that was thrown, where this process knows it, and a RemoteOrigin.
std::exception_ptr unpack_error(Packed& packed);

}  // namespace hymn::rpc::detail
