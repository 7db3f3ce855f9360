// hymn's types and reductions as MPI's: what MPI itself makes of them.
#include "p2p/mpi/mpi_types.hpp"

#include <gtest/gtest.h>

#include <array>

#include "collectives/mpi/mpi_ops.hpp"
#include "tests/support/data.hpp"

namespace hymn::test {
namespace {

constexpr std::array<int, 2> two_ranks{0, 1};
constexpr std::size_t count = 100;

/// What MPI makes of the inputs of two ranks.
Buffer reduced_by_mpi(DataType dtype, ReduceKind kind, MPI_Datatype type, MPI_Op op) {
  const Buffer other = reduction_input(dtype, kind, 0, count);
  Buffer result = reduction_input(dtype, kind, 1, count);
  EXPECT_EQ(PMPI_Reduce_local(other.data(), result.data(), static_cast<int>(count), type, op),
            MPI_SUCCESS);
  return result;
}

TEST(MpiTypes, HaveTheSizeOfTheirElements) {
  for (const DataType dtype : all_dtypes()) {
    SCOPED_TRACE(std::string(to_string(dtype)));
    for (const MPI_Datatype type : {mpi_type(dtype, nullptr), mpi_arithmetic_type(dtype)}) {
      if (type == MPI_DATATYPE_NULL) continue;
      int bytes = 0;
      PMPI_Type_size(type, &bytes);
      EXPECT_EQ(static_cast<std::size_t>(bytes), size_of(dtype));
    }
    EXPECT_NE(mpi_type(dtype, nullptr), MPI_DATATYPE_NULL);
  }
}

TEST(MpiTypes, AreReducedByMpiAsWhatTheyAre) {
  int cells = 0;
  for (const DataType dtype : all_dtypes()) {
    const MPI_Datatype type = mpi_arithmetic_type(dtype);
    if (type == MPI_DATATYPE_NULL || dtype == DataType::boolean) continue;
    for (const ReduceKind kind : all_kinds()) {
      if (mpi_operation(kind) == MPI_OP_NULL || !is_defined(dtype, kind)) continue;
      SCOPED_TRACE(cell_name(dtype, kind));
      expect_equal(reduction_result(dtype, kind, two_ranks, count),
                   reduced_by_mpi(dtype, kind, type, mpi_operation(kind)));
      ++cells;
    }
  }
  EXPECT_EQ(cells, 8 * 10 + 2 * 4 + 2 * 2);  // integers, float32 and float64, complex
}

TEST(MpiTypes, AreReducedByTheOperationsOfTheirAccumulators) {
  for (const DataType dtype : all_dtypes()) {
    for (const ReduceKind kind : all_kinds()) {
      if (!is_defined(dtype, kind)) continue;
      const Reducer reducer = reducer_for(dtype, op_of(kind, dtype, 0));
      if (reducer.needs_load() || reducer.needs_store()) continue;
      SCOPED_TRACE(cell_name(dtype, kind));
      expect_equal(reduction_result(dtype, kind, two_ranks, count),
                   reduced_by_mpi(dtype, kind, mpi_type(reducer.accumulator),
                                  mpi_op(reducer.accumulator, reducer.kind)));
    }
  }
}

}  // namespace
}  // namespace hymn::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  MPI_Init(&argc, &argv);
  const int result = RUN_ALL_TESTS();
  MPI_Finalize();
  return result;
}
