// `hymn topo` as text.
#pragma once

#include <string>

#include "tools/topo/view.hpp"

namespace hymn {

std::string topo_text(const TopoView& view);

}  // namespace hymn
