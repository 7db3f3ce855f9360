// The arguments of `hymn tune`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "hymn/timeout.hpp"
#include "hymn/types.hpp"
#include "tools/bench/cases.hpp"

namespace CLI {
class App;
}

namespace hymn {

/// Where the buffers are that are measured.
enum class TuneMemory : unsigned char {
  all,  ///< in host memory, and in that of GPUs where every rank has one
  host,
  device,
};

/// As given; checked_options() makes sense of it.
struct TuneArguments {
  std::vector<std::string> collectives;
  std::size_t min_bytes = 4;
  std::size_t max_bytes = std::size_t{4} << 20;
  std::string dtype = "float32";
  std::string op = "sum";
  std::string memory = "all";
  std::string timeout;
  std::string output;
  int threads = 0;
  bool quick = false;
};

struct TuneOptions {
  std::vector<const BenchCase*> cases;
  std::size_t min_bytes = 0;
  std::size_t max_bytes = 0;
  std::size_t factor = 4;  ///< from one size to the next
  std::size_t blocks = 9;  ///< of iterations, for each candidate and size
  double block_us = 2000;  ///< what a block should last
  DataType dtype = DataType::float32;
  ReduceOp op{};
  TuneMemory memory = TuneMemory::all;
  Timeout timeout{};   ///< unset: HYMN_TIMEOUT
  std::string output;  ///< empty: the user's cache
  int threads = 0;     ///< 0: ranks are processes of an MPI job
};

void declare_tune_arguments(CLI::App& app, TuneArguments& arguments);

/// Throws BadArguments.
TuneOptions checked_options(const TuneArguments& arguments);

}  // namespace hymn
