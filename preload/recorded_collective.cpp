#include "preload/recorded_collective.hpp"

#include <array>
#include <string_view>

#include "preload/reductions.hpp"

namespace hymn::preload {
namespace {

struct Named {
  std::string_view name;
  OpType type;
};
constexpr Named collectives[] = {
    {"MPI_Allreduce", OpType::all_reduce},
    {"MPI_Reduce", OpType::reduce},
    {"MPI_Bcast", OpType::broadcast},
    {"MPI_Barrier", OpType::barrier},
    {"MPI_Gather", OpType::gather},
    {"MPI_Gatherv", OpType::gather},
    {"MPI_Scatter", OpType::scatter},
    {"MPI_Scatterv", OpType::scatter},
    {"MPI_Allgather", OpType::all_gather},
    {"MPI_Allgatherv", OpType::all_gather},
    {"MPI_Alltoall", OpType::all_to_all},
    {"MPI_Alltoallv", OpType::all_to_all},
    {"MPI_Alltoallw", OpType::all_to_all},
    {"MPI_Reduce_scatter", OpType::reduce_scatter},
    {"MPI_Reduce_scatter_block", OpType::reduce_scatter},
    {"MPI_Scan", OpType::scan},
    {"MPI_Exscan", OpType::exscan},
    {"MPI_Iallreduce", OpType::all_reduce},
    {"MPI_Ireduce", OpType::reduce},
    {"MPI_Ibcast", OpType::broadcast},
    {"MPI_Ibarrier", OpType::barrier},
    {"MPI_Igather", OpType::gather},
    {"MPI_Igatherv", OpType::gather},
    {"MPI_Iscatter", OpType::scatter},
    {"MPI_Iscatterv", OpType::scatter},
    {"MPI_Iallgather", OpType::all_gather},
    {"MPI_Iallgatherv", OpType::all_gather},
    {"MPI_Ialltoall", OpType::all_to_all},
    {"MPI_Ialltoallv", OpType::all_to_all},
    {"MPI_Ireduce_scatter", OpType::reduce_scatter},
    {"MPI_Ireduce_scatter_block", OpType::reduce_scatter},
    {"MPI_Iscan", OpType::scan},
    {"MPI_Iexscan", OpType::exscan},
};

constexpr OpType find_type(std::string_view name) {
  for (const Named& one : collectives)
    if (one.name == name) return one.type;
  return OpType::barrier;
}

/// What hymn calls each of them.
constexpr auto types_of_calls = [] {
  std::array<OpType, call_count> types{};
  for (std::size_t i = 0; i < call_count; ++i) types[i] = find_type(call_names[i]);
  return types;
}();

}  // namespace

RecordedCollective& RecordedCollective::of(MPI_Comm comm) {
  comm_ = find(comm);
  is_uneven_ = true;
  return *this;
}

RecordedCollective& RecordedCollective::of(MPI_Comm comm, int count, MPI_Datatype type) {
  comm_ = find(comm);
  if (comm_ != nullptr) bytes_ = bytes_of(count, type);
  return *this;
}

RecordedCollective& RecordedCollective::of_blocks(MPI_Comm comm, int root, int count,
                                                  MPI_Datatype type, int root_count,
                                                  MPI_Datatype root_type) {
  comm_ = find(comm);
  if (comm_ == nullptr) return *this;
  const bool is_root = comm_->rank() == root;
  bytes_ = bytes_of(is_root ? root_count : count, is_root ? root_type : type);
  return at(root);
}

RecordedCollective& RecordedCollective::by(MPI_Op op) {
  if (comm_ != nullptr) kind_ = kind_of_op(op);
  return *this;
}

RecordedCollective& RecordedCollective::at(int root) {
  root_ = root;
  return *this;
}

RecordedCollective& RecordedCollective::until(const MPI_Request* request) {
  request_ = request;
  return *this;
}

HYMN_INLINE CallRecord RecordedCollective::record_of_it() const {
  CallRecord made;
  made.type = types_of_calls[index_of(call_)];
  const OpTraits& traits = traits_of(made.type);
  made.kind = kind_;
  if (traits.root != RootRole::none && root_ >= 0 && root_ < comm_->size())
    made.peer = comm_->world_rank(root_);
  const int ranks = comm_->size();
  made.input = side_of_mpi(bytes_, traits.input, is_uneven_, ranks);
  made.output = side_of_mpi(bytes_, traits.output, is_uneven_, ranks);
  return made;
}

void RecordedCollective::start_it() {
  WatchedGroup& group = *comm_->watched();
  const bool blocks = request_ == nullptr;
  CallRecord made = record_of_it();
  sequence_ = group.line->collectives.load(std::memory_order_relaxed) + 1;
  if (blocks) group.blocking.store(sequence_, std::memory_order_relaxed);
  group.line->collectives.store(sequence_, std::memory_order_release);
  made.sequence = sequence_;
  made.op_id = sequence_ + group.line->p2ps.load(std::memory_order_relaxed);
  record_ = begin(made, group, blocks);
}

void RecordedCollective::end_it(int code) {
  const std::shared_ptr<WatchedGroup>& group = comm_->watched();
  if (request_ != nullptr) {
    group->in_flight.fetch_add(1, std::memory_order_acq_rel);
    if (!leaves_open(request_, code, record_, group))
      end_open({{}, record_, group}, state_of(code));
    return;
  }
  watch_->record().end(record_, state_of(code));
  group->blocking.store(0, std::memory_order_release);
  if (group->in_flight.load(std::memory_order_acquire) == 0)
    group->line->completed.store(sequence_, std::memory_order_release);
}

}  // namespace hymn::preload
