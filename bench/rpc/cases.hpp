// What is measured of each library of remote calls, in the same way: by hymn_driver.cpp and
// grpc_driver.cpp here, and by tensorpipe_driver.py after them. It knows none of the libraries.
//   DRIVER SECONDS CALLERS IN_FLIGHT
// prints one line of JSON: medians in microseconds, and calls a second.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace rpc_bench {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;
using Words = std::span<std::uint64_t>;

constexpr std::size_t payload_bytes = std::size_t{1} << 20;
constexpr std::size_t payload_words = payload_bytes / sizeof(std::uint64_t);

struct Options {
  double seconds = 0.5;  ///< for each case
  int callers = 8;       ///< threads, where there are several
  int in_flight = 64;
};

inline Options options_of(int argc, char** argv) {
  Options options;
  if (argc > 1) options.seconds = std::atof(argv[1]);
  if (argc > 2) options.callers = std::atoi(argv[2]);
  if (argc > 3) options.in_flight = std::atoi(argv[3]);
  return options;
}

/// The payload of one caller. It is another one in each call, at three places.
inline void alter(Words words, std::uint64_t call) {
  words.front() = call;
  words[words.size() / 2] = 3 * call;
  words.back() = 5 * call;
}
/// What the other process answers to a payload.
inline std::uint64_t answer_to(std::uint64_t front, std::uint64_t middle, std::uint64_t back) {
  return front + 2 * middle + 4 * back;
}
inline std::uint64_t expected(std::uint64_t call) { return answer_to(call, 3 * call, 5 * call); }

/// What one thread calls with. Calls return when they have been answered.
class Caller {
 public:
  virtual ~Caller() = default;
  virtual void empty() = 0;
  virtual void empty_in_flight(int calls) = 0;
  /// Sends payload() and returns the answer.
  virtual std::uint64_t take() = 0;
  virtual Words payload() = 0;
};

class Peer {
 public:
  virtual ~Peer() = default;
  virtual std::unique_ptr<Caller> make_caller() = 0;
  /// How many empty calls the other process has seen.
  virtual std::uint64_t seen() = 0;
};

/// Makes calls, and knows how many there have been.
class Measurement {
 public:
  Measurement(Peer& peer, const Options& options) : peer_(peer), options_(options) {}

  /// Throws std::runtime_error where a call was lost, or its payload was another one there.
  void run() {
    const double empty_us = latency_us([](Caller& caller, std::uint64_t) { caller.empty(); }, 1);
    const double payload_us = latency_us(take, 0);
    const double empty_many = rate([](Caller& caller, std::uint64_t) { caller.empty(); }, 1);
    const double payload_many = rate(take, 0);
    const int in_flight = options_.in_flight;
    options_.callers = 1;
    const double flying =
        rate([in_flight](Caller& caller, std::uint64_t) { caller.empty_in_flight(in_flight); },
             in_flight);
    if (peer_.seen() != empty_calls_) throw std::runtime_error("not all calls have arrived once");
    std::printf(
        "{\"empty_us\": %.2f, \"payload_us\": %.2f, \"empty_many\": %.0f, \"payload_many\": %.0f, "
        "\"in_flight\": %.0f}\n",
        empty_us, payload_us, empty_many, payload_many, flying * in_flight);
  }

 private:
  using Call = std::function<void(Caller&, std::uint64_t number)>;

  static void take(Caller& caller, std::uint64_t number) {
    alter(caller.payload(), number);
    if (caller.take() != expected(number))
      throw std::runtime_error("a payload was another one where it arrived");
  }

  /// Of one caller; calls that do not count come first.
  double latency_us(const Call& call, std::uint64_t empty_calls) {
    const auto caller = peer_.make_caller();
    std::uint64_t number = 0;
    std::vector<double> times;
    for (const double seconds : {options_.seconds / 5, options_.seconds}) {
      times.clear();
      const auto end = Clock::now() + Seconds(seconds);
      for (auto now = Clock::now(); now < end;) {
        call(*caller, ++number);
        const auto after = Clock::now();
        times.push_back(Seconds(after - now).count() * 1e6);
        now = after;
      }
    }
    empty_calls_ += number * empty_calls;
    std::ranges::nth_element(times, times.begin() + std::ssize(times) / 2);
    return times[times.size() / 2];
  }

  /// Calls a second, of all callers together.
  double rate(const Call& call, int empty_calls) {
    std::vector<std::uint64_t> counts(static_cast<std::size_t>(options_.callers));
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::exception_ptr failed;
    const auto start = Clock::now();
    for (std::uint64_t& count : counts)
      threads.emplace_back([&] {
        try {
          const auto caller = peer_.make_caller();
          while (Clock::now() - start < Seconds(options_.seconds)) call(*caller, ++count);
        } catch (...) {
          const std::lock_guard lock(mutex);
          failed = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    if (failed) std::rethrow_exception(failed);
    const double seconds = Seconds(Clock::now() - start).count();
    std::uint64_t sum = 0;
    for (const std::uint64_t count : counts) sum += count;
    empty_calls_ += sum * static_cast<std::uint64_t>(empty_calls);
    return static_cast<double>(sum) / seconds;
  }

  Peer& peer_;
  Options options_;
  std::uint64_t empty_calls_ = 0;
};

inline int measure(Peer& peer, const Options& options) {
  try {
    Measurement(peer, options).run();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace rpc_bench
