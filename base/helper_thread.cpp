#include "base/helper_thread.hpp"

#include <fmt/format.h>
#include <pthread.h>

#include <csignal>
#include <exception>
#include <system_error>
#include <utility>

#include "hymn/error.hpp"

namespace hymn {

void name_this_thread(const char* name) { pthread_setname_np(pthread_self(), name); }

void become_helper_thread(const char* name) {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  name_this_thread(name);
}

bool run_guarded(const std::function<void()>& run, const ToldFailure& failed) noexcept {
  try {
    run();
    return true;
  } catch (const std::exception& error) {
    try {
      failed(error.what());
    } catch (...) {  // NOLINT: nothing is left to tell it with
    }
  } catch (...) {
    try {
      failed("something that is not a std::exception");
    } catch (...) {  // NOLINT: likewise
    }
  }
  return false;
}

std::thread start_thread(const char* name, std::function<void()> run) {
  try {
    return std::thread([name, run = std::move(run)] {
      name_this_thread(name);
      run();
    });
  } catch (const std::system_error& error) {
    throw ResourceError(
        fmt::format("no thread can be started ({}): {}", name, error.code().message()),
        {.remedy = "allow more threads (ulimit -u, the pids limit of the container) or more memory "
                   "(ulimit -v)"});
  }
}

std::thread start_helper_thread(const char* name, std::function<void()> run, ToldFailure failed) {
  return start_thread(name, [name, run = std::move(run), failed = std::move(failed)] {
    become_helper_thread(name);
    run_guarded(run, failed);
  });
}

}  // namespace hymn
