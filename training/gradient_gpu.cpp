#include "training/gradient_gpu.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>

#include "gpu/cuda_calls.hpp"
#include "hymn/error.hpp"

namespace hymn::training::detail {
namespace {

using cuda_api::Event;
using cuda_api::Pointer;
using cuda_api::Stream;

/// CU_STREAM_LEGACY: of the GPU that is current.
constexpr std::uintptr_t legacy_default_stream = 1;

Pointer address_of(const BufferView& view) { return reinterpret_cast<Pointer>(view.data); }

bool holds(const std::vector<Stream>& streams, Stream stream) {
  return std::ranges::find(streams, stream) != streams.end();
}

// What a group that was given up has on the GPU is ended by NCCL in that time.
constexpr std::chrono::seconds longest_rest{1};

}  // namespace

/// Memory of a GPU, which knows whom to go to in the end.
class GradientGpu::Block {
 public:
  Block(std::shared_ptr<GradientGpu> home, Pointer memory, DeviceMemory without_pools)
      : home_(std::move(home)), memory_(memory), without_pools_(std::move(without_pools)) {}
  ~Block() { home_->let_go(memory_, std::move(without_pools_)); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void* data() const { return reinterpret_cast<void*>(memory_); }

 private:
  std::shared_ptr<GradientGpu> home_;
  Pointer memory_;
  DeviceMemory without_pools_;
};

GradientGpu::GradientGpu(std::shared_ptr<GpuDevice> gpu, StreamOf stream_of)
    : gpu_(std::move(gpu)),
      stream_of_(std::move(stream_of)),
      averages_(gpu_->make_stream(false)),
      has_pools_(gpu_->lacks_stream_memory().empty()) {}

GradientGpu::~GradientGpu() {
  // Until the process ends.
  if (!may_free()) new std::vector<DeviceMemory>(std::move(remains_));  // NOLINT
  gpu_->destroy_stream(averages_);
}

bool GradientGpu::may_free() noexcept {
  if (remains_.empty()) return true;
  try {
    const auto end = std::chrono::steady_clock::now() + longest_rest;
    const GpuDevice::LentEvent last(*gpu_, averages_);
    while (!last.has_happened()) {
      if (std::chrono::steady_clock::now() >= end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  } catch (...) {
    return false;  // where the driver fails it is not known what works on it
  }
}

Stream GradientGpu::framework_stream() const {
  void* const given = stream_of_ ? stream_of_(gpu_->index()) : nullptr;
  return given != nullptr ? static_cast<Stream>(given)
                          : reinterpret_cast<Stream>(legacy_default_stream);
}

void GradientGpu::order(Stream earlier, Stream later) {
  const Event event = gpu_->mark(earlier);
  try {
    gpu_->wait_on(later, event);
  } catch (...) {
    gpu_->give_back(event);
    throw;
  }
  gpu_->give_back(event);
}

// In a graph it could not wait for what was enqueued outside.
void GradientGpu::require_usable(Stream stream) {
  const GpuDevice::Entry entry(*gpu_);
  gpu_->require_own(stream);
  if (reinterpret_cast<std::uintptr_t>(stream) != legacy_default_stream &&
      gpu_->is_capturing(stream))
    throw UnsupportedError(
        "the stream that gradients are computed on is captured into a graph",
        {.operation = "GradientReducer", .remedy = "call the reducer outside of the capture"});
}

// The framework may use another stream in each iteration, and several in one.
Stream GradientGpu::touched_stream() {
  const Stream stream = framework_stream();
  if (!holds(touched_, stream)) {
    require_usable(stream);
    order(averages_, stream);
    touched_.push_back(stream);
  }
  if (!holds(unsettled_, stream)) unsettled_.push_back(stream);
  return stream;
}

Stream GradientGpu::averages() {
  for (const Stream stream : unsettled_) order(stream, averages_);
  unsettled_.clear();
  return averages_;
}

void GradientGpu::hand_over() {
  const Stream stream = touched_stream();
  order(averages_, stream);
}

void GradientGpu::settle() {
  (void)averages();
  touched_.clear();
}

std::shared_ptr<void> GradientGpu::allocate(std::size_t bytes) {
  DeviceMemory without_pools;
  Pointer made = 0;
  if (has_pools_ && bytes != 0) {
    made = gpu_->allocate_on(averages_, bytes);
  } else {
    without_pools = DeviceMemory(gpu_, bytes);
    made = without_pools.address();
  }
  const auto block = std::make_shared<Block>(shared_from_this(), made, std::move(without_pools));
  const std::shared_ptr<void> memory(block, block->data());
  // It is there for what comes after that on averages_.
  order(averages_, touched_stream());
  clear(BufferView(memory.get(), bytes, DataType::uint8, MemoryKind::device));
  return memory;
}

void GradientGpu::copy(const BufferView& from, const BufferView& to) {
  const GpuDevice::Entry entry(*gpu_);
  const Stream stream = touched_stream();
  if (from.data == to.data || from.count == 0) return;
  const cuda_api::Functions& cuda = gpu_->cuda();
  call(cuda, cuda.copy_on, address_of(to), address_of(from), from.bytes(), stream);
}

void GradientGpu::clear(const BufferView& view) {
  const GpuDevice::Entry entry(*gpu_);
  const Stream stream = touched_stream();
  if (view.count == 0) return;
  const cuda_api::Functions& cuda = gpu_->cuda();
  call(cuda, cuda.fill_on, address_of(view), static_cast<unsigned char>(0), view.bytes(), stream);
}

std::vector<std::byte> GradientGpu::read(const BufferView& view) {
  std::vector<std::byte> bytes(view.bytes());
  if (bytes.empty()) return bytes;
  const GpuDevice::Entry entry(*gpu_);
  const Stream stream = averages();
  const cuda_api::Functions& cuda = gpu_->cuda();
  call(cuda, cuda.to_host_on, static_cast<void*>(bytes.data()), address_of(view), bytes.size(),
       stream);
  const GpuDevice::LentEvent copied(*gpu_, stream);
  while (!copied.has_happened()) std::this_thread::yield();
  return bytes;
}

void GradientGpu::let_go(Pointer memory, DeviceMemory without_pools) noexcept {
  if (without_pools.data() != nullptr) {
    const std::lock_guard lock(mutex_);
    remains_.push_back(std::move(without_pools));
    return;
  }
  try {
    if (memory != 0) gpu_->release_on(averages_, memory);
  } catch (...) {  // NOLINT: where the driver fails it stays
  }
}

}  // namespace hymn::training::detail
