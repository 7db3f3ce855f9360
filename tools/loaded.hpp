// Libraries of the `hymn` command's own that it loads when they are needed.
#pragma once

namespace hymn {

/// What is said when a library cannot be loaded.
struct LoadFailure {
  const char* lack;
  const char* remedy;
};

/// What `library` has by that name. It is looked for where this program's libraries are, and stays
/// loaded. Throws UnsupportedError.
void* loaded_name(const char* library, const char* name, const LoadFailure& failure);

}  // namespace hymn
