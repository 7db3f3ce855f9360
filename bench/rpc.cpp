// What a call between two workers of one host costs: empty, with 1 MB, by one caller and by
// several.
//   bench_rpc [--seconds S] [--callers N] [--calls N]
//
// Two processes, which meet in a file. Prints one line for each case.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "hymn/rpc.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

const auto do_nothing = hymn::rpc::register_function("bench.nothing", [] {});
const auto take = hymn::rpc::register_function("bench.take", [](const hymn::rpc::Buffer&) {});

struct Options {
  double seconds = 1;
  int callers = 8;
  long calls = 0;
};

long resident_kb() {
  std::ifstream file("/proc/self/statm");
  long pages = 0;
  file >> pages >> pages;
  return pages * ::sysconf(_SC_PAGESIZE) / 1024;
}

/// The median of one caller's calls in microseconds.
double latency_us(double seconds, const std::function<void()>& call) {
  std::vector<double> times;
  const auto end = Clock::now() + Seconds(seconds);
  for (auto now = Clock::now(); now < end;) {
    call();
    const auto after = Clock::now();
    times.push_back(Seconds(after - now).count() * 1e6);
    now = after;
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2),
                   times.end());
  return times[times.size() / 2];
}

double calls_a_second(double seconds, int callers, const std::function<long()>& call) {
  std::vector<long> counts(static_cast<std::size_t>(callers));
  std::vector<std::thread> threads;
  const auto start = Clock::now();
  for (long& count : counts)
    threads.emplace_back([&] {
      while (Clock::now() - start < Seconds(seconds)) count += call();
    });
  for (std::thread& thread : threads) thread.join();
  long sum = 0;
  for (const long count : counts) sum += count;
  return static_cast<double>(sum) / Seconds(Clock::now() - start).count();
}

void measure(hymn::rpc::Agent& agent, const Options& options) {
  const auto empty = [&] { agent.rpc_sync(1, do_nothing); };
  (void)latency_us(0.2, empty);
  fmt::print("empty call, 1 caller        {:8.1f} us (median)\n",
             latency_us(options.seconds, empty));
  const hymn::rpc::Buffer megabyte(1 << 20);
  std::fill(megabyte.bytes().begin(), megabyte.bytes().end(), std::byte{7});
  const double us = latency_us(options.seconds, [&] { agent.rpc_sync(1, take, megabyte); });
  fmt::print("1 MB call, 1 caller         {:8.1f} us (median), {:.2f} GB/s\n", us, 1.048576e3 / us);
  for (const int callers : {1, options.callers}) {
    const double rate = calls_a_second(options.seconds, callers, [&] {
      empty();
      return 1L;
    });
    fmt::print("empty calls, {:2} callers     {:8.0f} calls/s\n", callers, rate);
  }
  const double rate = calls_a_second(options.seconds, 1, [&] {
    std::vector<hymn::Future<void>> calls;
    for (int i = 0; i < 64; ++i) calls.push_back(agent.rpc_async(1, do_nothing));
    for (const auto& call : calls) call.get();
    return 64L;
  });
  fmt::print("empty calls, 64 in flight   {:8.0f} calls/s\n", rate);
  const long before = resident_kb();
  for (long i = 0; i < options.calls; ++i) empty();
  if (options.calls > 0)
    fmt::print("{} calls                 {} KB before, {} KB after\n", options.calls, before,
               resident_kb());
}

void run(const std::string& file, int rank, const Options& options) {
  auto agent = hymn::rpc::Agent::over(std::make_shared<hymn::FileStore>(file, 2),
                                      "worker" + std::to_string(rank), rank, 2);
  if (rank == 0) measure(agent, options);
  agent.shutdown();
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  CLI::App app("The cost of calls between two workers of one host");
  app.add_option("--seconds", options.seconds, "for each case");
  app.add_option("--callers", options.callers, "threads, where there are several");
  app.add_option("--calls", options.calls, "so many more, to see what memory they leave");
  CLI11_PARSE(app, argc, argv);
  const std::string file = fmt::format("/tmp/hymn-bench-rpc-{}", ::getpid());
  const pid_t child = ::fork();
  if (child == 0) {
    run(file, 1, options);
    return 0;
  }
  run(file, 0, options);
  ::waitpid(child, nullptr, 0);
  return 0;
}
