// Writes the picture of `hymn topo` as SVG.
#pragma once

#include <string>
#include <string_view>

#include "tools/topo/layout.hpp"

namespace hymn {

std::string svg_of(const TopoLayout& layout);
std::string xml_escaped(std::string_view text);

}  // namespace hymn
