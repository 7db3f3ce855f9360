// What the sources of collectives have in common.
#pragma once

#include <cstddef>
#include <string>

#include "hymn/error.hpp"
#include "hymn/functional.hpp"

namespace hymn::functional::detail {

ErrorContext context_of(const Collective& collective, const Where& where, std::string remedy = {});

/// Counted from the front, for an array of the list of inputs, which has so many dimensions.
std::size_t dimension_of(const Collective& collective, std::size_t array, std::size_t dimensions);

}  // namespace hymn::functional::detail
