// NCCL as an application would call it.
#include "tools/bench/vs_nccl.hpp"

#include <chrono>
#include <span>
#include <thread>

#include "collectives/nccl/nccl_types.hpp"
#include "gpu/nccl_calls.hpp"
#include "hymn/error.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn {

namespace {

using Steady = std::chrono::steady_clock;

// As hymn's own communicators are given when a world ends.
constexpr auto longest_end = std::chrono::seconds(5);

std::shared_ptr<NcclChannel> channel_of(World& world) {
  if (auto channel = detail::GroupState::of(world.group())->nccl()) return channel;
  const BufferView nothing(nullptr, 0, DataType::float32, MemoryKind::device);
  std::string why;
  for (const Candidate& candidate :
       world.group().explain(Request::all_reduce(nothing, nothing)).candidates)
    if (candidate.path == "nccl") why = ": " + candidate.reason;
  throw UnsupportedError("NCCL cannot be used by these ranks" + why,
                         {.remedy = "leave --vs nccl out"});
}

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
  const void* const in = bench_call.input().data;
  void* const out = bench_call.output().data;
  const std::size_t count = shape.count;
  const std::size_t bytes = count * size_of(dtype);
  const nccl_api::Comm comm = shared_->comm();
  const auto type = bench_case.reduces ? nccl_type(dtype) : nccl_api::uint8;
  const auto nccl_kind = bench_case.reduces ? nccl_op(op.kind()) : nccl_api::sum;
  switch (bench_case.type) {
    case OpType::all_reduce:
      return [=, this] {
        settle(call(nccl_, nccl_.all_reduce, in, out, count, type, nccl_kind, comm, stream));
      };
    case OpType::broadcast:
      return [=, this] {
        settle(call(nccl_, nccl_.broadcast, static_cast<const void*>(out), out, bytes, type,
                    shape.root, comm, stream));
      };
    case OpType::reduce:
      return [=, this] {
        settle(
            call(nccl_, nccl_.reduce, in, out, count, type, nccl_kind, shape.root, comm, stream));
      };
    case OpType::all_gather:
      return
          [=, this] { settle(call(nccl_, nccl_.all_gather, in, out, bytes, type, comm, stream)); };
    case OpType::reduce_scatter:
      return [=, this] {
        settle(call(nccl_, nccl_.reduce_scatter, in, out, count, type, nccl_kind, comm, stream));
      };
    default:  // a group of sends and receives, which every program writes in its own way
      return {};
  }
}

}  // namespace hymn
