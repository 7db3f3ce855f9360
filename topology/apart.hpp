// Work that may crash, hang or print, done in a child process.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace hymn {

/// What `work` returns, worked out by a child of this process in at most ten seconds and 2 GiB of
/// memory, with nothing of it on our stderr; nothing when the child did not come to its end.
///
/// For libraries that trust their input where we may not. `work` should not need what other threads
/// may hold locked now: the child has only this one.
std::optional<std::string> run_apart(const std::function<std::string()>& work);

}  // namespace hymn
