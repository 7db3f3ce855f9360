// libhymn-pictures.so, as the `hymn` command sees it.
#include "hymn/settings.hpp"
#include "tools/pictures.hpp"
#include "tools/topo/svg.hpp"
#include "tools/trace/perfetto.hpp"
#include "tools/trace/timeline_svg.hpp"

namespace hymn {
namespace {

std::string topo_svg(const TopoView& view) { return svg_of(lay_out(view)); }

}  // namespace

/// What picture_table names.
extern "C" __attribute__((visibility("default"))) const Pictures hymn_pictures;
const Pictures hymn_pictures{version(), topo_svg, trace::timeline_svg, trace::perfetto_json};

}  // namespace hymn
