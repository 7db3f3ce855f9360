#include "training/gradient_gpu.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "gpu/cuda_calls.hpp"

namespace hymn::training::detail {
namespace {

using cuda_api::Event;
using cuda_api::Pointer;
using cuda_api::Stream;

/// CU_STREAM_LEGACY: of the GPU that is current.
constexpr std::uintptr_t legacy_default_stream = 1;

// What a group that was given up has on the GPU is ended by NCCL in that time.
constexpr std::chrono::seconds longest_rest{5};

Pointer address_of(const BufferView& view) { return reinterpret_cast<Pointer>(view.data); }

bool holds(const std::vector<Stream>& streams, Stream stream) {
  return std::ranges::find(streams, stream) != streams.end();
}

}  // namespace

/// Memory of a GPU, which knows whom to go to in the end.
class GradientGpu::Block {
 public:
  Block(std::shared_ptr<GradientGpu> home, DeviceMemory memory)
      : home_(std::move(home)), memory_(std::move(memory)) {}
  ~Block() { home_->let_go(std::move(memory_)); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  void* data() const { return memory_.data(); }

 private:
  std::shared_ptr<GradientGpu> home_;
  DeviceMemory memory_;
};

GradientGpu::GradientGpu(std::shared_ptr<GpuDevice> gpu, StreamOf stream_of)
    : gpu_(std::move(gpu)), stream_of_(std::move(stream_of)), averages_(gpu_->make_stream(false)) {}

GradientGpu::~GradientGpu() {
  const auto end = std::chrono::steady_clock::now() + longest_rest;
  while (!sweep() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  for (Remains& each : remains_) keep(std::move(each.memory));
  gpu_->destroy_stream(averages_);
}

/// Until the process ends.
void GradientGpu::keep(DeviceMemory memory) {
  static auto& kept = *new std::vector<DeviceMemory>;
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  kept.push_back(std::move(memory));
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

// The framework may use another stream in each iteration, and several in one.
Stream GradientGpu::touched_stream() {
  const Stream stream = framework_stream();
  if (!holds(touched_, stream)) {
    {
      const GpuDevice::Entry entry(*gpu_);
      gpu_->require_own(stream);
    }
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
  (void)sweep();
}

std::shared_ptr<void> GradientGpu::allocate(std::size_t bytes) {
  const auto block = std::make_shared<Block>(shared_from_this(), DeviceMemory(gpu_, bytes));
  const std::shared_ptr<void> memory(block, block->data());
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

// Where the driver fails it is not known what works on it: it stays.
void GradientGpu::let_go(DeviceMemory memory) noexcept {
  if (memory.data() == nullptr) return;
  Event last = nullptr;
  try {
    last = gpu_->mark(averages_);
  } catch (...) {
    return keep(std::move(memory));
  }
  {
    const std::lock_guard lock(mutex_);
    remains_.push_back({std::move(memory), last});
  }
  (void)sweep();
}

bool GradientGpu::sweep() noexcept {
  std::vector<DeviceMemory> over;  // freed without the lock
  const std::lock_guard lock(mutex_);
  const auto are_over = std::ranges::partition(
      remains_, [this](const Remains& each) { return !gpu_->is_over(each.last); });
  for (Remains& each : are_over) {
    gpu_->give_back(each.last);
    over.push_back(std::move(each.memory));
  }
  remains_.erase(are_over.begin(), are_over.end());
  return remains_.empty();
}

}  // namespace hymn::training::detail
