// The arguments of `hymn bench`.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "hymn/timeout.hpp"
#include "hymn/types.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/bench/cases.hpp"

namespace CLI {
class App;
}

namespace hymn {

/// As given; checked_options() makes sense of it.
struct BenchArguments {
  std::string collective;
  std::size_t min_bytes = 4;
  std::size_t max_bytes = std::size_t{4} << 20;
  std::size_t factor = 2;
  std::string dtype = "float32";
  std::string op = "sum";
  std::string memory = "host";
  bool graph = false;
  int root = 0;
  std::size_t iterations = 0;
  std::size_t warmup = 5;
  std::size_t check = 1;
  std::string timeout = "none";
  std::string reproducible;
  int threads = 0;
  std::string versus;
  std::string versus_level = "init";
  std::string rival_cpus;
  bool json = false;
  std::string csv;
  bool in_place = false;
  bool out_of_place = false;
};

/// What --vs compares with.
enum class BenchRival : unsigned char { none, mpi, nccl };

struct BenchOptions {
  const BenchCase* bench_case = nullptr;
  std::size_t min_bytes = 0;
  std::size_t max_bytes = 0;
  std::size_t factor = 2;
  DataType dtype = DataType::float32;
  ReduceOp op{};
  bool on_gpu = false;     ///< the buffers are in the memory of the ranks' GPUs
  bool in_graphs = false;  ///< operations are captured into graphs, and these are launched
  int root = 0;
  std::size_t iterations = 0;  ///< 0: as many as make a steady figure
  std::size_t warmup = 0;
  std::size_t check = 0;  ///< iterations of each block whose results are verified
  Timeout timeout = Timeout::none();
  std::optional<Reproducibility> reproducible{};  ///< unset: as HYMN_REPRODUCIBLE
  int threads = 0;                                ///< 0: ranks are processes of an MPI job
  BenchRival rival = BenchRival::none;
  std::string rival_level;  ///< how plain MPI is started: "init", or a level of thread support
  std::string rival_cpus;   ///< of each of its ranks; not empty: this is one of them
  bool json = false;
  std::string csv;           ///< empty: none; "-": standard output
  std::vector<bool> places;  ///< the values of "in place" to measure
};

/// Declares the arguments of `hymn bench` and ties them to `arguments`.
void declare_bench_arguments(CLI::App& app, BenchArguments& arguments);

/// The value of --threads. Throws BadArguments.
void check_threads(int threads);

/// The value of --timeout. Throws BadArguments.
Timeout timeout_named(const std::string& text);

/// Throws BadArguments.
BenchOptions checked_options(const BenchArguments& arguments);

/// The counts that a job of that many ranks measures, ascending, each once.
std::vector<std::size_t> bench_counts(const BenchOptions& options, int ranks);

/// What the tables show as the size: nccl-tests' definition, the larger of input and output.
std::size_t size_in_bytes(const BenchOptions& options, std::size_t count, int ranks);

}  // namespace hymn
