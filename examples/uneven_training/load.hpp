// The same samples on all ranks.
#pragma once

#include <hymn/hymn.hpp>
#include <optional>
#include <string>

#include "examples/uneven_training/samples.hpp"

namespace uneven {

/// Rank 0 reads; all get all, to keep examples small. Nothing where the file is no good, which rank
/// 0 has then said.
std::optional<Split> load(hymn::World& world, const std::string& csv, std::uint64_t seed);

}  // namespace uneven
