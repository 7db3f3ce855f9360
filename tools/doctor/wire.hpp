// Facts as text, for their way to rank 0. Between ranks of one version only; not a file format.
#pragma once

#include <string>

#include "tools/doctor/facts.hpp"

namespace hymn {

std::string to_wire(const RankFacts& facts);
std::string to_wire(const HostFacts& facts);
/// Throw what nlohmann-json throws when the text is not what to_wire has made.
RankFacts rank_from_wire(const std::string& text);
HostFacts host_from_wire(const std::string& text);

}  // namespace hymn
