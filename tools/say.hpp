// Messages on the standard error.
#pragma once

#include <cstdio>
#include <string>

namespace hymn {

/// Where the standard error is closed or full, the message is lost and all else goes on.
inline void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

}  // namespace hymn
