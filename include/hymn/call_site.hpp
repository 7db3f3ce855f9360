// What a call is known by where the line of a program that makes it would say little.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstdint>
#include <string_view>

#include "hymn/export.hpp"

namespace hymn {

/// For CallOptions::site.
enum class CallSite : std::uint64_t {
  of_the_call = 0  ///< the line that makes the call
};

/// A name, such as "bucket 3 (conv1.weight and 5 more)", that errors, dumps and other ranks tell in
/// place of that line. The same name gives the same site, which is never freed. There is room for
/// 256 in a process, those of hymnSiteCreate included, and for 119 letters, of which the last are
/// kept; where there is none left it is of_the_call. Thread-safe.
HYMN_API CallSite call_site(std::string_view name);

}  // namespace hymn
