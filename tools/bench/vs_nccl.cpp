// NCCL as an application would call it.
#include "tools/bench/vs_nccl.hpp"

#include <chrono>
#include <span>
#include <thread>

#include "collectives/nccl/nccl_types.hpp"
#include "collectives/op_types.hpp"
#include "gpu/nccl_calls.hpp"
#include "hymn/error.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn {

namespace {

using Steady = std::chrono::steady_clock;

// As hymn's own communicators are given when a world ends.
constexpr auto longest_end = std::chrono::seconds(5);

std::shared_ptr<NcclChannel> channel_of(World& world) {
  if (auto channel = detail::GroupState::of(world.group())->means().nccl) return channel;
  const BufferView empty(nullptr, 0, DataType::float32, MemoryKind::device);
  std::string why;
  for (const Candidate& candidate :
       world.group().explain(Request::all_reduce(empty, empty)).candidates)
    if (candidate.path == "nccl") why = ": " + candidate.reason;
  throw UnsupportedError("NCCL cannot be used by these ranks" + why,
                         {.remedy = "leave --vs nccl out"});
}

/// What one rank gives to one collective, and the calls of NCCL for each. Where NCCL has none of
/// its own they are sends and receives in a group, as in nccl-tests.
struct Plain {
  const nccl_api::Functions& nccl;
  nccl_api::Comm comm;
  nccl_api::Stream stream;
  BenchShape shape;
  const std::byte* in;
  std::byte* out;
  std::size_t bytes;  // of shape.count elements
  nccl_api::DataType type;
  nccl_api::Op op;

  nccl_api::Result enqueue(OpType collective) const {
    if (collective == OpType::all_reduce)
      return call(nccl, nccl.all_reduce, in, out, shape.count, type, op, comm, stream);
    if (collective == OpType::broadcast)
      return call(nccl, nccl.broadcast, out, out, bytes, type, shape.root, comm, stream);
    if (collective == OpType::reduce)
      return call(nccl, nccl.reduce, in, out, shape.count, type, op, shape.root, comm, stream);
    if (collective == OpType::all_gather)
      return call(nccl, nccl.all_gather, in, out, bytes, type, comm, stream);
    if (collective == OpType::reduce_scatter)
      return call(nccl, nccl.reduce_scatter, in, out, shape.count, type, op, comm, stream);
    return exchange(collective);
  }

 private:
  nccl_api::Result exchange(OpType collective) const {
    NcclGroup group(nccl);
    if (collective == OpType::gather) {
      send(shape.root, 0);
      if (is_root()) recv_blocks();
    } else if (collective == OpType::scatter) {
      if (is_root()) send_blocks();
      recv(shape.root, 0);
    } else if (collective == OpType::all_to_all) {
      send_blocks();
      recv_blocks();
    } else if (collective == OpType::batch) {  // send_recv
      send((shape.rank + 1) % shape.ranks, 0);
      recv((shape.rank + shape.ranks - 1) % shape.ranks, 0);
    } else {
      throw Error(ErrorKind::internal, "NCCL is asked for what it has not");
    }
    return group.end();
  }

  bool is_root() const { return shape.rank == shape.root; }
  void send_blocks() const {
    for (int to = 0; to < shape.ranks; ++to) send(to, to);
  }
  void recv_blocks() const {
    for (int from = 0; from < shape.ranks; ++from) recv(from, from);
  }
  void send(int to, int block) const {
    call(nccl, nccl.send, in + static_cast<std::size_t>(block) * bytes, bytes, type, to, comm,
         stream);
  }
  void recv(int from, int block) const {
    call(nccl, nccl.recv, out + static_cast<std::size_t>(block) * bytes, bytes, type, from, comm,
         stream);
  }
};

}  // namespace

PlainNccl::PlainNccl(World& world, Timeout limit)
    : world_(world),
      limit_(limit),
      channel_(channel_of(world)),
      nccl_(channel_->parts().nccl.nccl),
      shared_(std::make_shared<SharedComm>(nccl_, channel_->parts().nccl.enter_gpu)) {
  nccl_api::UniqueId id{};
  if (world.rank() == 0) call(nccl_, nccl_.get_unique_id, &id);
  world.group().broadcast(BufferView(id.bytes.data(), id.bytes.size(), DataType::uint8), 0);
  // In NCCL a rank may wait for the others, who must have the id by then.
  world.group().barrier();
  shared_->begin(
      [nccl = nccl_, ranks = world.size(), rank = world.rank(), id](nccl_api::Comm* made) {
        nccl_api::Config config;
        call(nccl, nccl.init_rank, made, ranks, id, rank, &config);
      });
  await_settled();
}

PlainNccl::~PlainNccl() {
  shared_->finish();
  const auto until = Steady::now() + longest_end;
  while (!shared_->is_gone() && Steady::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!shared_->is_gone()) shared_->abort();
}

bool PlainNccl::is_settled() {
  if (!shared_->has_returned() || shared_->comm() == nullptr) return false;
  nccl_api::Result state = nccl_api::success;
  call(nccl_, nccl_.get_async_error, shared_->comm(), &state);
  if (state == nccl_api::in_progress) return false;
  if (state != nccl_api::success)
    throw_nccl_error(nccl_, "the plain communicator", state, shared_->comm());
  return true;
}

void PlainNccl::await_settled() {
  const auto began = Steady::now();
  while (!is_settled()) {
    if (!limit_.is_none() && Steady::now() - began > limit_.duration()) {
      shared_->abort();
      throw TimeoutError("the plain communicator of NCCL is not ready in time",
                         Steady::now() - began,
                         {.rank = world_.rank(), .remedy = "look for a rank that is stuck"});
    }
    std::this_thread::yield();
  }
}

std::function<void()> PlainNccl::call_for(const BenchCase& bench_case, const BenchShape& shape,
                                          const BenchCall& bench_call, ReduceOp op,
                                          nccl_api::Stream stream) {
  const DataType dtype = bench_call.input().dtype;
  const bool is_plain_op = op.kind() != ReduceKind::premul_sum;
  if (bench_case.reduces && (!is_plain_op || !nccl_refusal(dtype, op.kind()).empty())) return {};
  constexpr OpTypes written_here = gpu_collectives | OpTypes{OpType::batch};
  if (bench_case.type == OpType::barrier || !written_here.contains(bench_case.type)) return {};
  const Plain plain{.nccl = nccl_,
                    .comm = shared_->comm(),
                    .stream = stream,
                    .shape = shape,
                    .in = static_cast<const std::byte*>(bench_call.input().data),
                    .out = static_cast<std::byte*>(bench_call.output().data),
                    .bytes = shape.count * size_of(dtype),
                    .type = bench_case.reduces ? nccl_type(dtype) : nccl_api::uint8,
                    .op = bench_case.reduces ? nccl_op(op.kind()) : nccl_api::sum};
  return [this, plain, type = bench_case.type] { settle(plain.enqueue(type)); };
}

}  // namespace hymn
