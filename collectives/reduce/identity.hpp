// What a rank gives that has nothing to give: what changes nothing where it is combined with
// others, or one number throughout.
#pragma once

#include <cstddef>
#include <span>

#include "hymn/types.hpp"

namespace hymn {

/// Fills memory with elements of this type that leave every result of the reduction as it is, down
/// to the sign of a zero. False where there are none: the reduction is not defined for the type.
/// premul_sum: for a factor of 1.
bool fill_identity(std::span<std::byte> memory, DataType dtype, ReduceKind kind);

/// Fills memory with this number, rounded where the type has fractions. False where the type has no
/// such number.
bool fill_number(std::span<std::byte> memory, DataType dtype, double number);

}  // namespace hymn
