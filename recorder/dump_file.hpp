// A dump's way into its file.
#pragma once

#include <string>
#include <string_view>

#include "base/config.hpp"
#include "base/private.hpp"

namespace hymn {

/// `<base><rank>`
std::string dump_path(std::string_view base, int rank);

/// Replaces the file in one step: whoever looks sees the old one, or all of the new one. It can be
/// read by its owner alone. Returns 0, or errno, and leaves nothing behind then.
int replace_file(const std::string& path, std::string_view text);

/// Where a job's dumps go, and as what.
struct DumpPlace {
  std::string base{};  ///< as HYMN_DUMP
  DumpFormat format = DumpFormat::json;
};

/// Replaces the rank's dump by what dump_json() has given; with DumpFormat::torch, also
/// `torch/<name of the base><rank>` beside it. Throws ResourceError.
HYMN_PRIVATE void write_dump(const DumpPlace& place, int rank, const std::string& json);

}  // namespace hymn
