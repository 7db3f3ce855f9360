// Threads that hymn runs beside those of the application.
#pragma once

namespace hymn {

/// As `ps -L` and debuggers show it; at most 15 characters.
void name_this_thread(const char* name);

/// The first thing that a thread does which only looks after things: it takes its name, and leaves
/// all signals to the threads of the application.
void become_helper_thread(const char* name);

}  // namespace hymn
