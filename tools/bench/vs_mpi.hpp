// The plain MPI call that does the same as one of hymn's, for `hymn bench --vs mpi`.
#pragma once

#include <memory>

#include "tools/bench/cases.hpp"

namespace hymn {

/// Runs on MPI_COMM_WORLD, blocking, in the buffers of the measured call.
class PlainMpi {
 public:
  PlainMpi() = default;
  PlainMpi(const PlainMpi&) = delete;
  PlainMpi& operator=(const PlainMpi&) = delete;
  virtual ~PlainMpi() = default;
  virtual void run() = 0;
};

/// Null where MPI has no equivalent: a type that it cannot reduce (float16, bfloat16), an operation
/// that it does not have (avg, premul_sum), or a count that does not fit an int.
std::unique_ptr<PlainMpi> plain_mpi(const BenchCase& bench_case, const BenchShape& shape,
                                    const BenchCall& call, ReduceOp op);

}  // namespace hymn
