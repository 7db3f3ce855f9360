// Reads one dump. Whatever stands in the file, something sensible comes back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tools/trace/dump.hpp"

namespace hymn::trace {

struct ReadDump {
  std::optional<Dump> dump;
  std::string problem;  ///< why there is none, or what of it is lost; empty: all is well
};

/// `file` is for messages. Of a file that breaks off among its entries, the whole ones are taken.
/// Keys that are not known are passed over, missing ones leave what Dump says.
ReadDump read_dump(std::string_view text, const std::string& file);

}  // namespace hymn::trace
