#include "training/gradient_places.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <cstring>

#include "hymn/allocate.hpp"
#include "hymn/coalesce.hpp"
#include "runtime/group/group_gpu.hpp"

namespace hymn::training::detail {

std::shared_ptr<void> GradientPlace::allocate(std::size_t bytes) const {
  if (gpu_) return gpu_->allocate(bytes);
  const auto memory = std::make_shared<SharedBuffer>(bytes);
  return {memory, memory->data()};
}

void GradientPlace::copy(const BufferView& from, const BufferView& to) const {
  if (gpu_) return gpu_->copy(from, to);
  if (from.data != to.data && from.count != 0) std::memcpy(to.data, from.data, from.bytes());
}

void GradientPlace::clear(const BufferView& view) const {
  if (gpu_) return gpu_->clear(view);
  if (view.count != 0) std::memset(view.data, 0, view.bytes());
}

std::shared_ptr<const void> GradientPlace::read(const BufferView& view) const {
  if (!gpu_) return {std::shared_ptr<void>(), view.data};
  const auto copied = std::make_shared<std::vector<std::byte>>(gpu_->read(view));
  return {copied, copied->data()};
}

void GradientPlace::broadcast(std::span<const BufferView> values, std::size_t bytes_at_a_time,
                              int root) const {
  touch();
  broadcast_coalesced(group_, values, bytes_at_a_time, root, {.stream = averages()});
  hand_over();
  settle();
}

namespace {

/// Of the same ranks in the same order, with the same options, for the k-th GPU of the model.
ProcessGroup group_on(ProcessGroup group, int gpu, std::size_t k) {
  GroupOptions options = options_of(group);
  options.description = fmt::format("{}, gradients on GPU #{}", group.description(), k);
  options.gpu = gpu;
  options.tag.clear();
  return group.split(0, group.rank(), options);
}

/// Of each GPU, whether the group works there on all ranks: what others see differently each would
/// average in groups of its own.
std::vector<std::uint8_t> which_are_of(const ProcessGroup& group, std::span<const int> gpus) {
  const auto own = gpu_of(group).device;
  std::vector<std::uint8_t> are_own;
  for (const int gpu : gpus) are_own.push_back(own != nullptr && own->index() == gpu ? 1 : 0);
  if (!are_own.empty()) ProcessGroup(group).all_reduce(BufferView(are_own), ReduceOp::min);
  return are_own;
}

}  // namespace

GradientPlaces::GradientPlaces(const ProcessGroup& group, std::span<const int> gpus,
                               const StreamOf& stream_of)
    : host_(std::make_shared<const GradientPlace>(group, nullptr)) {
  const std::vector<std::uint8_t> are_of_group = which_are_of(group, gpus);
  try {
    for (std::size_t k = 0; k < gpus.size(); ++k) add(gpus[k], are_of_group[k] != 0, stream_of);
  } catch (const std::exception& error) {
    // The others wait for this rank in what it does not come to.
    abort(fmt::format("GPU {} cannot be used for gradients: {}", gpus[gpus_.size()], error.what()));
    throw;
  }
}

void GradientPlaces::add(int gpu, bool is_of_group, const StreamOf& stream_of) {
  ProcessGroup group = host_->group();
  if (!is_of_group) group = own_.emplace_back(group_on(group, gpu, gpus_.size()));
  const GroupGpu reached = gpu_of(group);
  if (reached.device == nullptr)
    throw UnsupportedError(
        fmt::format("the group reaches no memory of GPUs{}{}", reached.why_not.empty() ? "" : ": ",
                    reached.why_not),
        {.operation = "GradientReducer", .remedy = "put the model into memory of the host"});
  gpus_.push_back(std::make_shared<const GradientPlace>(
      group, std::make_shared<GradientGpu>(reached.device, stream_of)));
}

void GradientPlaces::end() const {
  for (const ProcessGroup& each : own_) ProcessGroup(each).destroy();
}

void GradientPlaces::abort(const std::string& reason) const {
  ProcessGroup(host_->group()).abort(reason);
  for (const ProcessGroup& each : own_) ProcessGroup(each).abort(reason);
}

}  // namespace hymn::training::detail
