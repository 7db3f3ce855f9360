#include "runtime/join/shadow_on_gpu.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "hymn/error.hpp"
#include "recorder/call_facts.hpp"

namespace hymn {
namespace {

/// The memory that the views of one side lie in; they are parts of one buffer.
struct Stretch {
  const std::byte* begin = nullptr;
  std::size_t bytes = 0;
};

template <class View>
Stretch stretch_of(const std::vector<View>& views) {
  Stretch stretch;
  for (const View& view : views) {
    const auto* const data = static_cast<const std::byte*>(view.data);
    if (view.bytes() == 0) continue;
    if (stretch.bytes == 0) stretch.begin = data;
    stretch.bytes = static_cast<std::size_t>(data - stretch.begin) + view.bytes();
  }
  return stretch;
}

template <class View>
void point_into(std::vector<View>& views, const Stretch& from, const DeviceMemory& to) {
  for (View& view : views)
    view.data = view.bytes() == 0 ? nullptr
                                  : static_cast<std::byte*>(to.data()) +
                                        (static_cast<const std::byte*>(view.data) - from.begin);
}

}  // namespace

void refuse_on_gpu(const CallRecord& coalesced) {
  throw UnsupportedError(fmt::format("{} #{} cannot be shadowed: coalesced calls on GPUs are not "
                                     "made beside others",
                                     describe(facts_of(coalesced)), coalesced.sequence),
                         {.remedy = "make the calls one by one, or use joinables"});
}

ShadowOnGpu::ShadowOnGpu(const Request& on_host, std::shared_ptr<GpuDevice> gpu,
                         std::vector<DeviceMemory>& spare)
    : gpu_(std::move(gpu)), located_(on_host, MemoryKind::device) {
  const Stretch outputs = stretch_of(located_.outputs);
  taken_ = take(outputs.bytes, spare);
  // The one buffer of a broadcast is a root's input.
  const Stretch inputs = stretch_of(located_.inputs);
  if (traits_of(on_host.type).one_buffer) {
    taken_.write(outputs.begin, outputs.bytes);
    point_into(located_.inputs, outputs, taken_);
  } else {
    given_ = take(inputs.bytes, spare);
    given_.write(inputs.begin, inputs.bytes);
    point_into(located_.inputs, inputs, given_);
  }
  point_into(located_.outputs, outputs, taken_);
  located_.point_to_views();
  if (on_host.type == OpType::barrier)
    located_.request.domain = {OrderingDomain::Kind::stream, gpu_->stream(false)};
}

DeviceMemory ShadowOnGpu::take(std::size_t bytes, std::vector<DeviceMemory>& spare) const {
  if (bytes == 0) return {};
  const auto found = std::ranges::find_if(
      spare, [bytes](const DeviceMemory& memory) { return memory.bytes() >= bytes; });
  if (found == spare.end()) return DeviceMemory(gpu_, std::bit_ceil(bytes));
  DeviceMemory taken = std::move(*found);
  spare.erase(found);
  return taken;
}

void ShadowOnGpu::give_back(std::vector<DeviceMemory>& spare) {
  for (DeviceMemory* const memory : {&given_, &taken_})
    if (memory->bytes() > 0) spare.push_back(std::move(*memory));
}

}  // namespace hymn
