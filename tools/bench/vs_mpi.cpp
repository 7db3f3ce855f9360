// Plain MPI calls, as an application would write them.
#include "tools/bench/vs_mpi.hpp"

#include <limits>
#include <optional>

#include "hymn/interop_mpi.hpp"

namespace hymn {

namespace {

std::optional<MPI_Datatype> reduced_type(DataType dtype) {
  switch (dtype) {
    case DataType::boolean:
      return MPI_C_BOOL;
    case DataType::int8:
      return MPI_INT8_T;
    case DataType::uint8:
      return MPI_UINT8_T;
    case DataType::int32:
      return MPI_INT32_T;
    case DataType::uint32:
      return MPI_UINT32_T;
    case DataType::int64:
      return MPI_INT64_T;
    case DataType::uint64:
      return MPI_UINT64_T;
    case DataType::float32:
      return MPI_FLOAT;
    case DataType::float64:
      return MPI_DOUBLE;
    case DataType::complex64:
      return MPI_C_FLOAT_COMPLEX;
    case DataType::complex128:
      return MPI_C_DOUBLE_COMPLEX;
    case DataType::float16:
    case DataType::bfloat16:
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::opaque:
      break;
  }
  return std::nullopt;
}

std::optional<MPI_Op> logical_operation(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::max:
    case ReduceKind::bor:
    case ReduceKind::lor:
      return MPI_LOR;
    case ReduceKind::product:
    case ReduceKind::min:
    case ReduceKind::band:
    case ReduceKind::land:
      return MPI_LAND;
    case ReduceKind::bxor:
    case ReduceKind::lxor:
      return MPI_LXOR;
    case ReduceKind::avg:
    case ReduceKind::premul_sum:
    case ReduceKind::opaque:
      break;
  }
  return std::nullopt;
}

std::optional<MPI_Op> operation(DataType dtype, ReduceKind kind) {
  if (dtype == DataType::boolean) return logical_operation(kind);
  switch (kind) {
    case ReduceKind::sum:
      return MPI_SUM;
    case ReduceKind::product:
      return MPI_PROD;
    case ReduceKind::min:
      return MPI_MIN;
    case ReduceKind::max:
      return MPI_MAX;
    case ReduceKind::band:
      return MPI_BAND;
    case ReduceKind::bor:
      return MPI_BOR;
    case ReduceKind::bxor:
      return MPI_BXOR;
    case ReduceKind::land:
      return MPI_LAND;
    case ReduceKind::lor:
      return MPI_LOR;
    case ReduceKind::lxor:
      return MPI_LXOR;
    case ReduceKind::avg:
    case ReduceKind::premul_sum:
    case ReduceKind::opaque:
      break;
  }
  return std::nullopt;
}

class PlainMpiCall : public PlainMpi {
 public:
  PlainMpiCall(const BenchCase& bench_case, const BenchShape& shape, const BenchCall& call,
               int count, MPI_Datatype datatype, MPI_Op op)
      : type_(bench_case.type),
        shape_(shape),
        is_root_(shape.rank == shape.root),
        in_(call.input().data),
        out_(call.output().data),
        count_(count),
        datatype_(datatype),
        op_(op) {}

  // MPI's default error handler ends the job, as it would that of an application like this.
  void run() override {
    const MPI_Comm comm = MPI_COMM_WORLD;
    switch (type_) {
      case OpType::all_reduce:
        MPI_Allreduce(in_or_in_place(), out_, count_, datatype_, op_, comm);
        return;
      case OpType::broadcast:
        MPI_Bcast(out_, count_, datatype_, shape_.root, comm);
        return;
      case OpType::reduce:
        MPI_Reduce(is_root_ ? in_or_in_place() : in_, out_, count_, datatype_, op_, shape_.root,
                   comm);
        return;
      case OpType::gather:
        MPI_Gather(is_root_ ? in_or_in_place() : in_, count_, datatype_, out_, count_, datatype_,
                   shape_.root, comm);
        return;
      case OpType::scatter:
        MPI_Scatter(in_, count_, datatype_, is_root_ && shape_.in_place ? MPI_IN_PLACE : out_,
                    count_, datatype_, shape_.root, comm);
        return;
      case OpType::all_gather:
        MPI_Allgather(in_or_in_place(), count_, datatype_, out_, count_, datatype_, comm);
        return;
      case OpType::reduce_scatter:
        // In place MPI takes the input from the output's place, and leaves the result at its front.
        MPI_Reduce_scatter_block(in_or_in_place(), shape_.in_place ? in_ : out_, count_, datatype_,
                                 op_, comm);
        return;
      case OpType::all_to_all:
        MPI_Alltoall(in_or_in_place(), count_, datatype_, out_, count_, datatype_, comm);
        return;
      case OpType::batch:
        MPI_Sendrecv(in_, count_, datatype_, (shape_.rank + 1) % shape_.ranks, 0, out_, count_,
                     datatype_, (shape_.rank + shape_.ranks - 1) % shape_.ranks, 0, comm,
                     MPI_STATUS_IGNORE);
        return;
      case OpType::barrier:
        MPI_Barrier(comm);
        return;
      case OpType::send:
      case OpType::recv:
        break;  // measured together, as a batch
    }
  }

 private:
  const void* in_or_in_place() const { return shape_.in_place ? MPI_IN_PLACE : in_; }

  OpType type_;
  BenchShape shape_;
  bool is_root_;
  void* in_;
  void* out_;
  int count_;
  MPI_Datatype datatype_;
  MPI_Op op_;
};

}  // namespace

std::unique_ptr<PlainMpi> plain_mpi(const BenchCase& bench_case, const BenchShape& shape,
                                    const BenchCall& call, ReduceOp op) {
  const DataType dtype = call.input().dtype;
  std::optional<MPI_Datatype> mpi_type = reduced_type(dtype);
  std::optional<MPI_Op> mpi_op = MPI_OP_NULL;
  std::size_t count = shape.count;
  if (bench_case.reduces) {
    mpi_op = operation(dtype, op.kind());
  } else if (!mpi_type) {
    // Moved only: bytes are as good as any type.
    mpi_type = MPI_BYTE;
    count *= size_of(dtype);
  }
  if (!mpi_type || !mpi_op || count > std::numeric_limits<int>::max()) return nullptr;
  return std::make_unique<PlainMpiCall>(bench_case, shape, call, static_cast<int>(count), *mpi_type,
                                        *mpi_op);
}

}  // namespace hymn
