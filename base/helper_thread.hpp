// Threads that hymn runs beside those of the application.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "base/private.hpp"

namespace hymn {

/// As `ps -L` and debuggers show it; at most 15 characters.
void name_this_thread(const char* name);

/// The first thing that a thread does which only looks after things: it takes its name, and leaves
/// all signals to the threads of the application.
void become_helper_thread(const char* name);

/// What is done about an exception, told in words, where nobody is who could catch it.
using ToldFailure = std::function<void(std::string_view why)>;

/// Calls `run`. What it throws goes to `failed`, and no further. True: it has thrown nothing.
HYMN_PRIVATE bool run_guarded(const std::function<void()>& run, const ToldFailure& failed) noexcept;

/// A thread of that name, which may run code of the application. Throws ResourceError where no
/// thread can be started.
std::thread start_thread(const char* name, std::function<void()> run);

/// Every thread that only looks after things is started here, so that no exception in one of them
/// ends the process: what `run` throws ends the thread, and goes to `failed`, which tells it to
/// those whom the thread served. As start_thread().
HYMN_PRIVATE std::thread start_helper_thread(const char* name, std::function<void()> run,
                                             ToldFailure failed);

}  // namespace hymn
