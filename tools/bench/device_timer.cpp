#include "tools/bench/device_timer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <thread>

#include "gpu/cuda_calls.hpp"
#include "gpu/presence.hpp"
#include "hymn/error.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn {

std::shared_ptr<GpuDevice> require_gpus(World& world) {
  std::int32_t mine = world.gpu();
  std::vector<std::int32_t> all(static_cast<std::size_t>(world.size()));
  world.group().all_gather(view_of(mine), all);
  std::vector<int> without;
  for (int rank = 0; rank < world.size(); ++rank)
    if (all[static_cast<std::size_t>(rank)] < 0) without.push_back(rank);
  if (without.empty()) return detail::GroupState::of(world.group())->means().reach.gpu;
  const std::string why = mine < 0 ? why_no_gpus(loaded_gpu_functions()) : "";
  throw UnsupportedError(
      fmt::format("device memory can be measured where every rank has a GPU, but rank(s) {} of {} "
                  "have none{}{}",
                  fmt::join(without, ", "), world.size(), why.empty() ? "" : ": ", why),
      {.remedy = "start on machines with GPUs (`hymn info` and `hymn topo` show them), or measure "
                 "host memory"});
}

DeviceTimer::DeviceTimer(World& world, std::shared_ptr<GpuDevice> gpu, const BenchCase& bench_case,
                         DataType dtype, ReduceOp op, std::size_t bytes, Timeout limit,
                         bool in_graphs)
    : BenchTally(world, bench_case, dtype, op),
      gpu_(std::move(gpu)),
      limit_(limit),
      in_graphs_(in_graphs),
      pattern_(gpu_, bytes + PeriodicData::period * size_of(dtype)),
      first_(gpu_, bytes),
      second_(gpu_, bytes),
      found_(bytes) {
  std::vector<std::byte> pattern(pattern_.bytes());
  input_.fill(BufferView(pattern.data(), pattern.size() / size_of(dtype), dtype), 0);
  pattern_.write(pattern.data(), pattern.size());
  stream_ = gpu_->make_stream(false);
  for (Marks& marks : marks_) marks = make_marks();
  const GpuDevice::Entry entry(*gpu_);
  hymn::call(gpu_->cuda(), gpu_->cuda().make_event, &end_, cuda_api::event_without_timing);
}

// After a failure the driver may refuse all of this.
DeviceTimer::~DeviceTimer() {
  for (const Marks& marks : marks_)
    for (const cuda_api::Event event : {marks.before, marks.behind})
      if (event != nullptr) gpu_->cuda().destroy_event.pointer(event);
  if (end_ != nullptr) gpu_->cuda().destroy_event.pointer(end_);
  if (stream_ != nullptr) gpu_->destroy_stream(stream_);
}

DeviceTimer::Marks DeviceTimer::make_marks() const {
  const GpuDevice::Entry entry(*gpu_);
  const cuda_api::Functions& cuda = gpu_->cuda();
  Marks made;
  hymn::call(cuda, cuda.make_event, &made.before, cuda_api::event_with_timing);
  hymn::call(cuda, cuda.make_event, &made.behind, cuda_api::event_with_timing);
  return made;
}

void DeviceTimer::write_input(const BenchCall& call_of, std::size_t phase) {
  const BufferView& input = call_of.input();
  if (input.bytes() == 0) return;
  const auto from = pattern_.address() + phase % PeriodicData::period * size_of(dtype_);
  const cuda_api::Functions& cuda = gpu_->cuda();
  hymn::call(cuda, cuda.copy_on, reinterpret_cast<cuda_api::Pointer>(input.data), from,
             input.bytes(), stream_);
}

double DeviceTimer::copy_rate() const {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  constexpr int copies = 4;
  try {
    const DeviceMemory from(gpu_, bytes);
    const DeviceMemory to(gpu_, bytes);
    const GpuDevice::Entry entry(*gpu_);
    const cuda_api::Functions& cuda = gpu_->cuda();
    const auto copy = [&] {
      hymn::call(cuda, cuda.copy_on, to.address(), from.address(), bytes, stream_);
    };
    copy();
    record(marks_.front().before);
    for (int i = 0; i < copies; ++i) copy();
    record(marks_.front().behind);
    while (!gpu_->has_happened(marks_.front().behind)) std::this_thread::yield();
    float milliseconds = 0;
    hymn::call(cuda, cuda.elapsed, &milliseconds, marks_.front().before, marks_.front().behind);
    return milliseconds > 0 ? 2.0 * copies * static_cast<double>(bytes) / (milliseconds * 1e6) : 0;
  } catch (const BackendError&) {
    return 0;
  }
}

void DeviceTimer::record(cuda_api::Event event) const {
  const cuda_api::Functions& cuda = gpu_->cuda();
  if (is_capturing_)
    hymn::call(cuda, cuda.record_event_flagged, event, stream_, cuda_api::record_external);
  else
    hymn::call(cuda, cuda.record_event, event, stream_);
}

BlockTime DeviceTimer::time_block(const BenchCall& call, std::size_t iterations, std::size_t check,
                                  const Side& side) {
  if (iterations == 0) return {};
  all_.barrier();
  const GpuDevice::Entry entry(*gpu_);
  double stream_us = 0;
  Clock::duration spent{0};
  for (std::size_t left = iterations; left > 0;) {
    const bool is_checked = left <= check;
    const std::size_t operations = is_checked ? 1 : std::min(left - check, marks_.size());
    std::unique_ptr<DeviceGraph> graph;
    if (in_graphs_)
      graph = enqueue_graph(call, operations, side, spent);
    else
      enqueue(call, operations, side, spent);
    stream_us += await(operations, side);
    if (in_graphs_) all_.barrier();  // to destroy it may wait for others, too
    if (is_checked) verify_output(call, phase_);
    left -= operations;
  }
  return {stream_us / static_cast<double>(iterations), mean_us(spent, iterations)};
}

void DeviceTimer::enqueue(const BenchCall& call, std::size_t operations, const Side& side,
                          Clock::duration& spent) {
  for (std::size_t i = 0; i < operations; ++i) {
    phase_ = next_phase();
    write_input(call, input_phase(phase_));
    record(marks_[i].before);
    const auto begin = Clock::now();
    side.enqueue();
    spent += Clock::now() - begin;
    record(marks_[i].behind);
  }
}

// Ranks may share the GPU: to make a graph may wait for all that runs there, of which one may wait
// for this rank. One operation that is not captured makes what NCCL wants to have made before; one
// that is captured, and not timed, takes the time by which hosts launch apart; and the graph's
// first launch takes longer, for the GPU has to be told of it.
std::unique_ptr<DeviceGraph> DeviceTimer::enqueue_graph(const BenchCall& call,
                                                        std::size_t operations, const Side& side,
                                                        Clock::duration& spent) {
  Clock::duration unused{0};
  enqueue(call, 1, side, unused);
  await(1, side);
  all_.barrier();
  auto graph = std::make_unique<DeviceGraph>(*gpu_, stream_, [&] {
    is_capturing_ = true;
    side.enqueue();
    enqueue(call, operations, side, unused);
  });
  is_capturing_ = false;
  all_.barrier();
  graph->launch(stream_);
  await(operations, side);
  all_.barrier();
  const auto begin = Clock::now();
  graph->launch(stream_);
  spent += Clock::now() - begin;
  return graph;
}

double DeviceTimer::await(std::size_t marks, const Side& side) {
  const cuda_api::Functions& cuda = gpu_->cuda();
  const auto began = Clock::now();
  // The marks of a graph tell of its launch before, until this one has come to them.
  hymn::call(cuda, cuda.record_event, end_, stream_);
  while (!gpu_->has_happened(end_)) {
    side.look();
    if (!limit_.is_none() && Clock::now() - began > limit_.duration())
      throw TimeoutError(
          fmt::format("{} operations on the stream have not ended in time", marks),
          Clock::now() - began,
          {.rank = world_.rank(), .remedy = "look for a rank that is stuck, or allow more time"});
    std::this_thread::yield();
  }
  double us = 0;
  for (std::size_t i = 0; i < marks; ++i) {
    float milliseconds = 0;
    hymn::call(cuda, cuda.elapsed, &milliseconds, marks_[i].before, marks_[i].behind);
    us += static_cast<double>(milliseconds) * 1e3;
  }
  return us;
}

void DeviceTimer::verify_output(const BenchCall& call_of, std::size_t phase) {
  const BufferView& output = call_of.output();
  if (output.bytes() == 0) return;
  // In place it may be a part of the memory.
  const bool is_first = output.data >= first_.data() &&
                        output.data < static_cast<std::byte*>(first_.data()) + first_.bytes();
  const DeviceMemory& memory = is_first ? first_ : second_;
  const auto* const begin = static_cast<const std::byte*>(memory.data());
  const auto offset = static_cast<std::size_t>(static_cast<const std::byte*>(output.data) - begin);
  memory.read(found_.data(), offset + output.bytes());
  verify(call_of, phase, found_.data() + offset);
}

}  // namespace hymn
