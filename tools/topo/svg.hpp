// Writes the picture of `hymn topo` as SVG.
#pragma once

#include <string>

#include "tools/topo/layout.hpp"

namespace hymn {

std::string svg_of(const TopoLayout& layout);

}  // namespace hymn
