// Reads and checks the arguments of `hymn bench`.
#include "tools/bench/options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>

#include "tools/machine_source.hpp"
#include "tools/names.hpp"
#include "tools/size_option.hpp"

namespace hymn {

namespace {

// Far beyond any memory; keeps sums of sizes from wrapping around.
constexpr std::size_t largest_size = std::size_t{1} << 44;

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (const BenchCase& bench_case : bench_cases()) names.push_back(bench_case.name);
  return names;
}

std::vector<std::string_view> level_names() {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < reproducibility_count; ++i)
    names.push_back(to_string(static_cast<Reproducibility>(i)));
  return names;
}

std::vector<bool> places_to_measure(const BenchArguments& arguments, const BenchCase& bench_case) {
  const bool both = arguments.in_place == arguments.out_of_place;
  if (arguments.in_place && !both && !bench_case.in_place)
    throw BadArguments(fmt::format("{} has no in-place form", bench_case.name));
  if (arguments.out_of_place && !both && !bench_case.out_of_place)
    throw BadArguments(fmt::format("{} has no out-of-place form", bench_case.name));
  std::vector<bool> places;
  if (bench_case.out_of_place && (both || arguments.out_of_place)) places.push_back(false);
  if (bench_case.in_place && (both || arguments.in_place)) places.push_back(true);
  return places;
}

void check_ranges(const BenchArguments& arguments) {
  if (arguments.min_bytes == 0 || arguments.max_bytes < arguments.min_bytes ||
      arguments.max_bytes > largest_size)
    throw BadArguments(fmt::format("--min {} and --max {}: 0 < min <= max <= 16T is needed",
                                   arguments.min_bytes, arguments.max_bytes));
  if (arguments.factor < 2) throw BadArguments("--factor must be 2 or more");
  check_threads(arguments.threads);
  if (arguments.json && arguments.csv == "-")
    throw BadArguments("--json and --csv - both want the standard output; give --csv a file");
}

BenchRival rival_named(const BenchArguments& arguments) {
  if (arguments.versus.empty()) return BenchRival::none;
  const bool on_gpu = arguments.memory == "device";
  if (index_of(arguments.versus, {"mpi", "nccl"}, "thing to compare with") == 1) {
    if (!on_gpu)
      throw BadArguments("--vs nccl compares in the memory of GPUs: use --memory device, too");
    return BenchRival::nccl;
  }
  if (on_gpu)
    throw BadArguments("--vs mpi compares in host memory; with --memory device use --vs nccl");
  if (arguments.threads > 0)
    throw BadArguments("--vs mpi compares processes; it cannot be used with --threads");
  return BenchRival::mpi;
}

}  // namespace

void check_threads(int threads) {
  if (threads < 0 || threads > most_ranks_per_host)
    throw BadArguments(
        fmt::format("--threads {}: 1 to {} are possible", threads, most_ranks_per_host));
}

Timeout timeout_named(const std::string& text) {
  if (text == "none") return Timeout::none();
  double seconds = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seconds);
  // The upper bound keeps the conversion to nanoseconds from overflowing.
  if (error != std::errc() || rest != end || !(seconds > 0 && seconds <= 1e9))
    throw BadArguments(
        fmt::format("--timeout '{}' is neither a number of seconds nor 'none'", text));
  return std::chrono::duration<double>(seconds);
}

void declare_bench_arguments(CLI::App& app, BenchArguments& arguments) {
  app.add_option("collective", arguments.collective,
                 fmt::format("what to measure: {}", fmt::join(collective_names(), ", ")))
      ->required();
  add_size(app, "--min", arguments.min_bytes, "smallest size in bytes; K, M and G are understood");
  add_size(app, "--max", arguments.max_bytes, "largest size");
  app.add_option("--factor", arguments.factor, "from one size to the next")
      ->check(unsigned_number())
      ->capture_default_str();
  app.add_option("--dtype", arguments.dtype, fmt::format("{}", fmt::join(dtype_names(), ", ")))
      ->capture_default_str();
  app.add_option("--op", arguments.op,
                 fmt::format("{} (which multiplies by 2)", fmt::join(op_names(), ", ")))
      ->capture_default_str();
  app.add_option("--memory", arguments.memory,
                 "where the buffers are: host, or device, the memory of each rank's GPU")
      ->capture_default_str();
  app.add_flag("--graph", arguments.graph,
               "with --memory device: operations are captured into CUDA graphs, so that what the "
               "hosts need to launch them is left out");
  app.add_option("--root", arguments.root, "of rooted collectives")->capture_default_str();
  app.add_option("--iters", arguments.iterations,
                 "timed iterations of each size; 0: as many as give a steady figure")
      ->check(unsigned_number())
      ->capture_default_str();
  app.add_option("--warmup", arguments.warmup, "iterations before the timed ones")
      ->check(unsigned_number())
      ->capture_default_str();
  app.add_option("--check", arguments.check,
                 "how many iterations of each block of timed ones have their results verified")
      ->check(unsigned_number())
      ->capture_default_str();
  app.add_option("--timeout", arguments.timeout, "of each operation, in seconds, or none")
      ->capture_default_str();
  app.add_option("--reproducible", arguments.reproducible,
                 fmt::format("how far results keep their bits: {}; not given: as "
                             "HYMN_REPRODUCIBLE",
                             fmt::join(level_names(), ", ")));
  app.add_option("--threads", arguments.threads,
                 "run that many ranks as threads of this process, without MPI");
  app.add_option("--vs", arguments.versus,
                 "mpi, or nccl with --memory device: time its plain call too, in turns; mpi in "
                 "processes of its own");
  app.add_option("--vs-level", arguments.versus_level,
                 "how plain MPI's processes start it: init (MPI_Init), or the level of thread "
                 "support that they ask for: single, funneled, serialized or multiple")
      ->capture_default_str();
  app.add_option("--rival", arguments.rival_cpus)->group("");  // only --vs mpi gives it
  app.add_flag("--in-place", arguments.in_place, "only in place");
  app.add_flag("--out-of-place", arguments.out_of_place, "only out of place");
  app.add_flag("--json", arguments.json, "print a list of flat objects");
  app.add_option("--csv", arguments.csv,
                 "write comma-separated values to this file; -: print them");
}

BenchOptions checked_options(const BenchArguments& arguments) {
  check_ranges(arguments);
  BenchOptions options;
  options.bench_case =
      &bench_cases()[index_of(arguments.collective, collective_names(), "collective")];
  options.min_bytes = arguments.min_bytes;
  options.max_bytes = arguments.max_bytes;
  options.factor = arguments.factor;
  options.dtype = dtype_named(arguments.dtype);
  options.op = op_named(arguments.op);
  options.root = arguments.root;
  options.iterations = arguments.iterations;
  options.warmup = arguments.warmup;
  options.check = arguments.check;
  options.timeout = timeout_named(arguments.timeout);
  if (!arguments.reproducible.empty())
    options.reproducible = static_cast<Reproducibility>(
        index_of(arguments.reproducible, level_names(), "level of reproducibility"));
  options.threads = arguments.threads;
  options.on_gpu = index_of(arguments.memory, {"host", "device"}, "memory") == 1;
  if (arguments.graph && !options.on_gpu)
    throw BadArguments("--graph captures what is on the stream of a GPU: use --memory device, too");
  options.in_graphs = arguments.graph;
  options.rival = rival_named(arguments);
  const std::vector<std::string_view> levels = {"init", "single", "funneled", "serialized",
                                                "multiple"};
  options.rival_level = levels[index_of(arguments.versus_level, levels, "way to start MPI")];
  options.rival_cpus = arguments.rival_cpus;
  options.json = arguments.json;
  options.csv = arguments.csv;
  options.places = places_to_measure(arguments, *options.bench_case);
  return options;
}

std::vector<std::size_t> bench_counts(const BenchOptions& options, int ranks) {
  if (!options.bench_case->has_data()) return {0};
  const std::size_t unit = size_in_bytes(options, 1, ranks);
  std::vector<std::size_t> counts;
  for (std::size_t bytes = options.min_bytes;; bytes *= options.factor) {
    // A size that is no whole number of elements becomes the next smaller one that is, but not 0.
    const std::size_t count = std::max<std::size_t>(bytes / unit, 1);
    if (counts.empty() || counts.back() != count) counts.push_back(count);
    if (bytes > options.max_bytes / options.factor) return counts;
  }
}

std::size_t size_in_bytes(const BenchOptions& options, std::size_t count, int ranks) {
  const std::size_t blocks = options.bench_case->has_blocks() ? static_cast<std::size_t>(ranks) : 1;
  return count * blocks * size_of(options.dtype);
}

}  // namespace hymn
