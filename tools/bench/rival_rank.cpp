// A rank of the rival: plain MPI calls in a process that has called MPI_Init, as an application's.
// hymn, in a world of that MPI, only keeps the ranks in step between the blocks, and their inputs
// and results; it sleeps while it waits.
#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "hymn/interop_mpi.hpp"
#include "tools/bench/rival_job.hpp"
#include "tools/bench/timer.hpp"
#include "topology/affinity.hpp"

namespace hymn {
namespace {

int initialise(const std::string& level) {
  int provided = MPI_THREAD_SINGLE;
  if (level == "init")
    MPI_Init(nullptr, nullptr);
  else
    MPI_Init_thread(nullptr, nullptr,
                    level == "multiple"     ? MPI_THREAD_MULTIPLE
                    : level == "serialized" ? MPI_THREAD_SERIALIZED
                    : level == "funneled"   ? MPI_THREAD_FUNNELED
                                            : MPI_THREAD_SINGLE,
                    &provided);
  MPI_Query_thread(&provided);
  return provided;
}

const char* level_name(int level) {
  return level >= MPI_THREAD_MULTIPLE     ? "MULTIPLE"
         : level >= MPI_THREAD_SERIALIZED ? "SERIALIZED"
         : level >= MPI_THREAD_FUNNELED   ? "FUNNELED"
                                          : "SINGLE";
}

// Where hymn's rank of the same number is. Before MPI_Init, so that its memory lies there, too.
void bind_as(const std::string& cpus_of_ranks) {
  const char* number = nullptr;
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"})
    if (number == nullptr) number = std::getenv(variable);
  const int rank = number == nullptr ? 0 : std::atoi(number);
  std::istringstream all(cpus_of_ranks);
  std::string cpus;
  for (int i = 0; i <= rank; ++i)
    if (!std::getline(all, cpus, ';')) return;
  if (const auto set = CpuSet::parse(cpus); set && !set->empty()) bind_this_thread(*set);
}

void say_line(const std::string& text) {
  std::printf("hymn-rival %s\n", text.c_str());
  std::fflush(stdout);
}

std::string description(int level, const std::string& asked) {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string library = text.data();
  return fmt::format("{} at MPI_THREAD_{} ({})", library.substr(0, library.find_first_of(",\n")),
                     level_name(level), asked == "init" ? "MPI_Init" : "MPI_Init_thread");
}

class RivalRank {
 public:
  explicit RivalRank(World& world, const BenchOptions& options)
      : world_(world),
        group_(world.group()),
        options_(options),
        timer_(world, *options.bench_case, options.dtype, options.op,
               size_in_bytes(options, bench_counts(options, world.size()).back(), world.size())) {}

  void serve() {
    RivalBlock block;
    while (hear(block)) {
      const double us = measure(block);
      const std::uint64_t wrong = timer_.take_wrong();
      if (world_.rank() == 0) say_line(fmt::format("{} {}", us, wrong));
    }
  }

 private:
  /// False when nothing more is to be measured.
  bool hear(RivalBlock& block) {
    std::array<std::uint64_t, 5> words{};
    std::string line;
    if (world_.rank() == 0 && std::getline(std::cin, line)) {
      std::istringstream text(line);
      words[0] = text >> words[1] >> words[2] >> words[3] >> words[4] ? 1 : 0;
    }
    rest_until_done(group_.broadcast_async(BufferView(words), 0));
    block = {words[1], words[2] != 0, words[3], words[4]};
    return words[0] != 0;
  }

  double measure(const RivalBlock& block) {
    const BenchShape shape{world_.rank(), world_.size(), options_.root, block.count,
                           block.in_place};
    const BenchCall call = timer_.call(shape);
    const auto mpi = plain_mpi(*options_.bench_case, shape, call, options_.op);
    const double mean = timer_.time_block(call, block.iterations, block.check, [&] { mpi->run(); });
    return timer_.slowest({mean}).max;
  }

  World& world_;
  ProcessGroup group_;
  const BenchOptions& options_;
  BenchTimer timer_;
};

}  // namespace

int run_rival(const BenchOptions& options) {
  bind_as(options.rival_cpus);
  const int level = initialise(options.rival_level);
  {
    World world = world_from_communicator(MPI_COMM_WORLD, {.timeout = Timeout::none()});
    RivalRank rank(world, options);
    if (world.rank() == 0) say_line(description(level, options.rival_level));
    rank.serve();
  }
  MPI_Finalize();
  return 0;
}

}  // namespace hymn
