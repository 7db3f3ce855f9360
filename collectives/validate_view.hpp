// What can be wrong with one buffer view, and with two of them together.
#pragma once

#include "hymn/buffer.hpp"
#include "hymn/error.hpp"

namespace hymn {

/// Throws UsageError for a null buffer with elements, a count that no memory can hold, a shape that
/// does not fit the count, and a layout with gaps or overlaps.
void validate_view(std::string_view side, const ConstBufferView& view);

/// Whether they share a byte.
bool overlap(const ConstBufferView& a, const ConstBufferView& b);

[[noreturn]] void refuse_overlap();

}  // namespace hymn
