// The library libhymn-pictures.so: what writes pictures and traces, which the `hymn` command loads
// when it is asked for one.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace hymn {

struct TopoView;
namespace trace {
class Job;
struct Finding;
}  // namespace trace

/// What the library has, as an object named picture_table.
struct Pictures {
  const char* version;  ///< of hymn: others have other views and jobs
  std::string (*topo_svg)(const TopoView& view);
  std::string (*timeline_svg)(const trace::Job& job, const std::vector<trace::Finding>& findings,
                              std::size_t count);
  std::string (*perfetto_json)(const trace::Job& job);
};

constexpr const char* picture_library = "libhymn-pictures.so";
constexpr const char* picture_table = "hymn_pictures";

/// Loads it. Throws UnsupportedError where it is not there, or not of this version.
const Pictures& pictures();

}  // namespace hymn
