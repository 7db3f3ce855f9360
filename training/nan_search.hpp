// Which parameter has a gradient that is no number.
#pragma once

#include <cstddef>
#include <optional>

#include "hymn/buffer.hpp"

namespace hymn::training::detail {

/// The first element that is a NaN, in either part of a complex one. Of a floating-point or complex
/// type.
std::optional<std::size_t> first_nan(const BufferView& view);

}  // namespace hymn::training::detail
