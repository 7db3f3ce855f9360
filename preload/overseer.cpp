#include "preload/overseer.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>

#include "recorder/dump_file.hpp"

namespace hymn::preload {
namespace {

constexpr Duration for_ever = Duration::max();

Duration length_of(Timeout timeout) {
  return timeout.is_set() && !timeout.is_none() ? timeout.duration() : for_ever;
}

/// A report that nobody has asked for would be in the way.
Duration report_limit(const Config& config) {
  return std::getenv("HYMN_WAIT_REPORT") == nullptr ? for_ever : length_of(config.wait_report);
}

void say(const std::string& text) { std::fprintf(stderr, "hymn: %s\n", text.c_str()); }

std::string seconds(Duration waited) {
  return fmt::format("{:.1f} s", std::chrono::duration<double>(waited).count());
}

}  // namespace

std::unique_ptr<Overseer> Overseer::make(const Config& config, Watch& watch) {
  if (report_limit(config) == for_ever && length_of(config.timeout) == for_ever) return nullptr;
  return std::make_unique<Overseer>(config, watch);
}

// Signals are for the threads of the program.
Overseer::Overseer(const Config& config, Watch& watch)
    : config_(config), watch_(watch), report_after_(report_limit(config)) {
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Overseer::~Overseer() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Overseer::run() {
  const Duration shortest = std::min(report_after_, length_of(config_.timeout));
  const Duration pause =
      std::clamp<Duration>(shortest / 10, std::chrono::milliseconds(20), std::chrono::seconds(1));
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [this] { return ends_; })) look();
}

void Overseer::look() {
  const auto wait = watch_.record().longest_wait();
  if (!wait) return;
  if (wait->waited >= report_after_ && told_ != wait->id) {
    told_ = wait->id;
    say(fmt::format("rank {} (pid {}) has waited {} in {}; hymn trace --live {} tells why",
                    watch_.rank(), ::getpid(), seconds(wait->waited), wait->what, ::getpid()));
  }
  if (wait->waited >= length_of(config_.timeout) && given_up_ != wait->id) {
    given_up_ = wait->id;
    give_up(*wait);
  }
}

void Overseer::give_up(const OutsideRecord::Wait& wait) {
  const std::string reason =
      fmt::format("{} has not ended after {}", wait.what, seconds(wait.waited));
  std::string dumped;
  if (!config_.dump.empty()) {
    try {
      write_dump({.base = config_.dump, .format = config_.dump_format}, watch_.rank(),
                 watch_.dump("timeout", reason));
      dumped = fmt::format("; its dump is {}", config_.dump + std::to_string(watch_.rank()));
    } catch (const std::exception& error) {
      dumped = fmt::format("; there is no dump: {}", error.what());
    }
  }
  say(fmt::format("rank {} (pid {}): {}{}", watch_.rank(), ::getpid(), reason, dumped));
  if (config_.on_failure != OnFailure::tear_down) return;
  std::fflush(nullptr);
  std::abort();
}

}  // namespace hymn::preload
