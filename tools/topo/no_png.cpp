// Where librsvg was not there when hymn was built.
#include "hymn/error.hpp"
#include "tools/topo/png.hpp"

namespace hymn {

std::string png_of(const std::string&, double) {
  throw UnsupportedError("this hymn cannot draw PNG: it was built without librsvg",
                         {.remedy = "write an SVG, or install librsvg2-dev and build hymn again"});
}

}  // namespace hymn
