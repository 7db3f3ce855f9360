#include "tools/tune/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "collectives/reduce/reducer.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/bench/options.hpp"
#include "tools/names.hpp"
#include "tools/size_option.hpp"

namespace hymn {

namespace {

// A table tells sizes up to here.
constexpr std::size_t largest_tuned = std::size_t{1} << 40;

std::vector<const BenchCase*> cases_named(const std::vector<std::string>& names) {
  std::vector<const BenchCase*> cases;
  std::vector<std::string_view> known;
  for (const BenchCase& bench_case : bench_cases()) {
    if (!is_collective(bench_case.type)) continue;
    known.push_back(bench_case.name);
    if (names.empty()) cases.push_back(&bench_case);
  }
  for (const std::string& name : names) {
    const BenchCase* named = find_bench_case(known[index_of(name, known, "collective")]);
    if (std::find(cases.begin(), cases.end(), named) == cases.end()) cases.push_back(named);
  }
  return cases;
}

}  // namespace

void declare_tune_arguments(CLI::App& app, TuneArguments& arguments) {
  app.add_option("--collectives", arguments.collectives, "all_reduce,broadcast,…; default: all")
      ->delimiter(',');
  add_size(app, "--min", arguments.min_bytes, "smallest size in bytes; K, M and G are understood");
  add_size(app, "--max", arguments.max_bytes, "largest size");
  app.add_option("--dtype", arguments.dtype, fmt::format("{}", fmt::join(dtype_names(), ", ")))
      ->capture_default_str();
  app.add_option("--op", arguments.op, "of reductions")->capture_default_str();
  app.add_option("--memory", arguments.memory,
                 "where the buffers are: host, device (the memory of each rank's GPU), or all: "
                 "device, too, where every rank has a GPU")
      ->capture_default_str();
  app.add_option("--timeout", arguments.timeout,
                 "of each operation, in seconds, or none; default: HYMN_TIMEOUT");
  app.add_option("--output", arguments.output, "the table's file; default: the user's cache");
  app.add_option("--threads", arguments.threads,
                 "run that many ranks as threads of this process, without MPI");
  app.add_flag("--quick", arguments.quick, "fewer sizes, shorter measurements");
}

TuneOptions checked_options(const TuneArguments& arguments) {
  if (arguments.min_bytes == 0 || arguments.max_bytes < arguments.min_bytes ||
      arguments.max_bytes > largest_tuned)
    throw BadArguments(fmt::format("--min {} and --max {}: 0 < min <= max <= 1T is needed",
                                   arguments.min_bytes, arguments.max_bytes));
  check_threads(arguments.threads);
  TuneOptions options;
  options.cases = cases_named(arguments.collectives);
  options.min_bytes = arguments.min_bytes;
  options.max_bytes = arguments.max_bytes;
  options.dtype = dtype_named(arguments.dtype);
  options.op = op_named(arguments.op);
  options.memory =
      static_cast<TuneMemory>(index_of(arguments.memory, {"all", "host", "device"}, "memory"));
  const std::string reason = refusal(options.dtype, options.op.kind());
  if (!reason.empty())
    throw BadArguments(fmt::format("{} of {}: {}", arguments.op, arguments.dtype, reason));
  if (!arguments.timeout.empty()) options.timeout = timeout_named(arguments.timeout);
  options.output = arguments.output;
  options.threads = arguments.threads;
  if (arguments.quick) {
    options.factor = 16;
    options.blocks = 5;
    options.block_us = 500;
  }
  return options;
}

}  // namespace hymn
