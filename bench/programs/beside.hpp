// Runs a program that is written against a communicator with plain MPI and with hymn, in turns.
//
// A program is a template over its communicator (with_mpi.hpp, with_hymn.hpp, timed.hpp):
//
//   template <class Comm> class Program {
//     static constexpr std::string_view name;
//     static std::vector<std::size_t> sizes();      // that it runs at, unless told otherwise
//     Program(Comm comm, std::size_t size);         // on all ranks
//     void set_up(std::uint64_t seed);              // another input
//     void run();                                   // what is timed
//     void check();                                 // throws where the result is wrong; all ranks
//     const std::vector<…>& result() const;         // of this rank
//     static bool same(const Result&, const Result&);
//   };
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/mpi_job.hpp"
#include "bench/programs/timed.hpp"
#include "bench/programs/with_hymn.hpp"
#include "bench/programs/with_mpi.hpp"
#include "bench/turns.hpp"
#include "hymn/interop_mpi.hpp"

namespace hymn::bench {

struct Length {
  std::size_t rounds = 21;
  double milliseconds = 10;  ///< of a round, unless a single run takes longer
  std::vector<std::size_t> sizes;
};

/// What a program is told.
struct Options {
  Length length;
  bool mpi_requests = false;

  MpiFaces faces() const { return mpi_requests ? MpiFaces::requests : MpiFaces::sendrecv; }
};

/// Microseconds of a run on this rank, the mean of a round of them: in all, and in calls.
struct RunTime {
  double all = 0;
  double in_calls = 0;
};

/// Each run has another input, and each result is checked, neither of which counts. `in_calls` is
/// what a Timed communicator counts, if there is one.
template <class Program>
RunTime time_runs(const Job& job, Program& program, std::uint64_t seed, std::size_t runs,
                  const Clock::duration* in_calls = nullptr) {
  RunTime spent;
  const auto calls = [&] { return in_calls == nullptr ? 0 : microseconds(*in_calls); };
  for (std::size_t i = 0; i < runs; ++i) {
    program.set_up(seed + i);
    job.meet();
    const double calls_before = calls();
    const auto began = Clock::now();
    program.run();
    spent.all += microseconds(Clock::now() - began);
    spent.in_calls += calls() - calls_before;
    program.check();
  }
  const auto count = static_cast<double>(runs);
  return {spent.all / count, spent.in_calls / count};
}

/// What they have made of the same input, in the round that has just ended.
template <class Plain, class Ours>
void require_same(const Plain& plain, const Ours& ours) {
  if (!Plain::same(plain.result(), ours.result()))
    throw std::runtime_error(fmt::format("{}: hymn's result is not MPI's", Plain::name));
}

struct Rounds {
  std::vector<double> plain;
  std::vector<double> ours;
};

/// Who begins changes from round to round.
template <class Plain, class Ours>
Rounds in_turns(const Job& job, Plain& plain, Ours& ours, const Length& length, std::size_t runs) {
  Rounds times;
  for (std::size_t round = 0; round < length.rounds; ++round) {
    const std::uint64_t seed = round * runs;
    const bool we_begin = round % 2 == 1;
    if (we_begin) times.ours.push_back(time_runs(job, ours, seed, runs).all);
    times.plain.push_back(time_runs(job, plain, seed, runs).all);
    if (!we_begin) times.ours.push_back(time_runs(job, ours, seed, runs).all);
    require_same(plain, ours);
  }
  return {job.slowest(std::move(times.plain)), job.slowest(std::move(times.ours))};
}

/// The part of its time that a program spends in calls, waits for other ranks among them: the mean
/// of the ranks, in rounds of their own.
template <template <class> class Program, class Comm>
double share_of_calls(const Job& job, const Comm& comm, std::size_t size, const Length& length,
                      std::size_t runs) {
  Clock::duration in_calls{};
  Program<Timed<Comm>> program(Timed<Comm>(comm, in_calls), size);
  std::vector<double> totals(2);
  const std::size_t rounds = 1 + length.rounds / 4;
  for (std::size_t round = 0; round < rounds; ++round) {
    const RunTime spent = time_runs(job, program, round * runs, runs, &in_calls);
    totals[0] += spent.all;
    totals[1] += spent.in_calls;
  }
  MPI_Allreduce(MPI_IN_PLACE, totals.data(), 2, MPI_DOUBLE, MPI_SUM, job.communicator());
  return totals[1] / totals[0];
}

inline void print_head(const Job& job, std::string_view name, const Length& length) {
  job.print("# {}, hymn {}, {} ranks; {} rounds of each side in turn, {} ms or a run long; ms\n",
            name, version(), job.size(), length.rounds, length.milliseconds);
  job.print("{:>12} {:>8} {:5} {:>10} {:>10} {:>10} {:>7}   {}\n", "program", "size", "with",
            "median", "min", "max", "calls,%", "ratio to MPI: median, least, greatest; of min");
}

inline void print_times(const Job& job, std::string_view program, std::size_t size,
                        std::string_view with, const std::vector<double>& times, double share) {
  const BenchTimes of = figures_of(times);
  job.print("{:>12} {:>8} {:5} {:>10.4f} {:>10.4f} {:>10.4f} {:>7.1f}", program, size, with,
            of.median / 1e3, of.min / 1e3, of.max / 1e3, 100 * share);
}

template <template <class> class Program>
void compare(const Job& job, const WithMpi& mpi, const WithHymn& hymn, std::size_t size,
             const Length& length) {
  Program<WithMpi> plain(mpi, size);
  Program<WithHymn> ours(hymn, size);
  const std::size_t runs = hymn::enough_iterations(
      1e3 * length.milliseconds, 10000,
      [&](std::size_t count) { return time_runs(job, plain, 0, count).all; },
      [&](std::vector<double> means) { return job.slowest(std::move(means)); });
  time_runs(job, ours, 0, runs);
  const Rounds times = in_turns(job, plain, ours, length, runs);
  std::vector<double> ratios;
  for (std::size_t i = 0; i < times.ours.size(); ++i)
    ratios.push_back(times.ours[i] / times.plain[i]);
  const BenchTimes ratio = figures_of(ratios);
  const std::string_view name = Program<WithMpi>::name;
  print_times(job, name, size, WithMpi::name, times.plain,
              share_of_calls<Program>(job, mpi, size, length, runs));
  job.print("\n");
  print_times(job, name, size, WithHymn::name, times.ours,
              share_of_calls<Program>(job, hymn, size, length, runs));
  job.print("   {:.3f} {:.3f} {:.3f} {:.3f}\n", ratio.median, ratio.min, ratio.max,
            figures_of(times.ours).min / figures_of(times.plain).min);
  std::fflush(stdout);
}

inline void add_options(CLI::App& app, Options& options) {
  app.add_option("--rounds", options.length.rounds, "turns of each side")
      ->check(CLI::PositiveNumber);
  app.add_option("--milliseconds", options.length.milliseconds, "of a round");
  app.add_option("--sizes", options.length.sizes, "what they mean the source says")->delimiter(',');
  app.add_flag("--mpi-requests", options.mpi_requests,
               "halos by MPI_Isend, MPI_Irecv and MPI_Waitall, not by MPI_Sendrecv");
}

template <template <class> class Program>
int run_beside(int argc, char** argv) {
  Options options;
  options.length.sizes = Program<WithMpi>::sizes();
  CLI::App app("The same program with plain MPI and with hymn");
  add_options(app, options);
  CLI11_PARSE(app, argc, argv);
  MPI_Init(&argc, &argv);
  try {
    const Job job(MPI_COMM_WORLD);
    World world = world_from_communicator(job.communicator());
    const WithMpi mpi(job.communicator(), options.faces());
    const WithHymn ours(world.group());
    print_head(job, Program<WithMpi>::name, options.length);
    for (const std::size_t size : options.length.sizes)
      compare<Program>(job, mpi, ours, size, options.length);
  } catch (const std::exception& error) {
    // The other ranks would wait for this one.
    fmt::print(stderr, "{}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}

}  // namespace hymn::bench
