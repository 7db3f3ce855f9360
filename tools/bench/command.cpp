// `hymn bench`: makes the ranks and lets each of them run the measurements.
#include "tools/bench/command.hpp"

#include <atomic>

#include "hymn/threads.hpp"
#include "tools/bench/rival_job.hpp"
#include "tools/bench/runner.hpp"

namespace hymn {

namespace {

// Rank 0 opens the files, and all ranks hear whether it could.
BenchReports reports_of_rank_0(World& world, const BenchOptions& options) {
  BenchReports reports;
  std::string problem;
  std::int32_t failed = 0;
  if (world.rank() == 0) {
    try {
      reports = make_reports(options);
    } catch (const BadArguments& bad) {
      problem = bad.what();
      failed = 1;
    }
  }
  world.group().broadcast(view_of(failed), 0);
  if (failed != 0) throw BadArguments(problem);
  return reports;
}

std::uint64_t measure(World& world, const BenchOptions& options) {
  return BenchRunner(world, options, reports_of_rank_0(world, options)).run();
}

std::uint64_t measure_in_threads(const BenchOptions& options) {
  std::atomic<std::uint64_t> wrong = 0;
  try {
    run_ranks(options.threads, [&](World& world) { wrong = measure(world, options); });
  } catch (const RanksFailed& failed) {
    // Bad arguments are the same on all ranks: once is enough.
    try {
      failed.rethrow_first();
    } catch (const BadArguments&) {
      throw;
    } catch (...) {
      throw failed;
    }
  }
  return wrong;
}

}  // namespace

int bench_command(const BenchArguments& arguments) {
  const BenchOptions options = checked_options(arguments);
  if (!options.rival_cpus.empty()) return run_rival(options);
  if (options.threads > 0) return measure_in_threads(options) == 0 ? 0 : 1;
  World world;
  return measure(world, options) == 0 ? 0 : 1;
}

}  // namespace hymn
