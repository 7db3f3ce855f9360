// Plain MPI calls, as an application would write them.
#include "tools/bench/vs_mpi.hpp"

#include <limits>

#include "p2p/mpi/mpi_types.hpp"

namespace hymn {

namespace {

/// Of booleans, for which MPI has others.
MPI_Op logical_operation(ReduceKind kind) {
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
    case ReduceKind::custom:
    case ReduceKind::opaque:
      break;
  }
  return MPI_OP_NULL;
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
      case OpType::scan:
        MPI_Scan(in_or_in_place(), out_, count_, datatype_, op_, comm);
        return;
      case OpType::exscan:
        MPI_Exscan(in_or_in_place(), out_, count_, datatype_, op_, comm);
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
      case OpType::probe:
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
  MPI_Datatype type = mpi_arithmetic_type(dtype);
  MPI_Op operation = MPI_OP_NULL;
  std::size_t count = shape.count;
  if (bench_case.reduces) {
    operation =
        dtype == DataType::boolean ? logical_operation(op.kind()) : mpi_operation(op.kind());
    if (type == MPI_DATATYPE_NULL || operation == MPI_OP_NULL) return nullptr;
  } else if (type == MPI_DATATYPE_NULL) {
    // Moved only: bytes are as good as any type.
    type = MPI_BYTE;
    count *= size_of(dtype);
  }
  if (count > std::numeric_limits<int>::max()) return nullptr;
  return std::make_unique<PlainMpiCall>(bench_case, shape, call, static_cast<int>(count), type,
                                        operation);
}

}  // namespace hymn
