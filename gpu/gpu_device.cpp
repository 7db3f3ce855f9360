#include "gpu/gpu_device.hpp"

#include <fmt/format.h>

#include "gpu/cuda_calls.hpp"
#include "hymn/error.hpp"

namespace hymn {

using namespace cuda_api;

namespace {
thread_local const GpuDevice* entered = nullptr;
}

// The driver may be gone by now, at the end of the process: nothing is done about failures.
GpuDevice::~GpuDevice() {
  if (context_ == nullptr) return;
  const RelaxedCapture relaxed(cuda_);
  if (cuda_.push_context.pointer == nullptr || cuda_.push_context.pointer(context_) != success)
    return;
  for (const Event event : free_events_) cuda_.destroy_event.pointer(event);
  for (const Stream stream : streams_)
    if (stream != nullptr) cuda_.destroy_stream.pointer(stream);
  if (scratch_ != 0) cuda_.release.pointer(scratch_);
  Context popped = nullptr;
  cuda_.pop_context.pointer(&popped);
  cuda_.release_context.pointer(device_);
}

Context GpuDevice::context() {
  std::lock_guard lock(mutex_);
  if (context_ == nullptr) {
    call(cuda_, cuda_.device, &device_, index_);
    call(cuda_, cuda_.retain_context, &context_, device_);
  }
  return context_;
}

int GpuDevice::multiprocessors() {
  context();
  int count = 0;
  call(cuda_, cuda_.attribute, &count, cuda_api::attribute_multiprocessors, device_);
  return count;
}

GpuDevice::Entry::Entry(GpuDevice& gpu) : gpu_(gpu), before_(entered) {
  if (before_ == &gpu) return;
  relaxed_.emplace(gpu.cuda_);
  call(gpu_.cuda_, gpu_.cuda_.push_context, gpu_.context());
  entered = &gpu;
}

GpuDevice::Entry::~Entry() {
  if (before_ == &gpu_) return;
  entered = before_;
  Context popped = nullptr;
  gpu_.cuda_.pop_context.pointer(&popped);
}

void GpuDevice::make_current() {
  CaptureMode relaxed = capture_relaxed;
  if (const auto exchange = cuda_.exchange_capture_mode.pointer) exchange(&relaxed);
  call(cuda_, cuda_.set_context, context());
}

Stream GpuDevice::stream(bool high_priority) {
  return own_stream(high_priority ? 1 : 0, high_priority);
}

Stream GpuDevice::stream_for_copies() { return own_stream(2, false); }

Stream GpuDevice::own_stream(std::size_t which, bool high_priority) {
  const Entry entry(*this);
  std::lock_guard lock(mutex_);
  Stream& stream = streams_[which];
  if (stream == nullptr) stream = create(high_priority);
  return stream;
}

Pointer GpuDevice::scratch() {
  const Entry entry(*this);
  std::lock_guard lock(mutex_);
  if (scratch_ == 0) {
    Pointer made = 0;
    call(cuda_, cuda_.allocate, &made, scratch_bytes);
    scratch_ = made;
    call(cuda_, cuda_.fill, made, static_cast<unsigned char>(0), scratch_bytes);
  }
  return scratch_;
}

std::string GpuDevice::lacks_stream_memory() {
  const Entry entry(*this);
  if (cuda_.allocate_on.pointer == nullptr || cuda_.release_on.pointer == nullptr)
    return fmt::format("the CUDA driver has no {}", cuda_.allocate_on.name);
  int has_pools = 0;
  call(cuda_, cuda_.attribute, &has_pools, attribute_memory_pools, device_);
  return has_pools != 0 ? "" : "the GPU has no memory pools";
}

Pointer GpuDevice::allocate_on(Stream stream, std::size_t bytes) {
  const Entry entry(*this);
  Pointer made = 0;
  call(cuda_, cuda_.allocate_on, &made, bytes, stream);
  return made;
}

void GpuDevice::release_on(Stream stream, Pointer memory) {
  const Entry entry(*this);
  call(cuda_, cuda_.release_on, memory, stream);
}

Stream GpuDevice::make_stream(bool high_priority) {
  const Entry entry(*this);
  return create(high_priority);
}

Stream GpuDevice::create(bool high_priority) const {
  int least = 0;
  int greatest = 0;
  if (high_priority) call(cuda_, cuda_.priorities, &least, &greatest);
  Stream made = nullptr;
  call(cuda_, cuda_.make_stream, &made, stream_non_blocking, greatest);
  return made;
}

void GpuDevice::destroy_stream(Stream stream) noexcept {
  const RelaxedCapture relaxed(cuda_);
  if (cuda_.push_context.pointer(context_) != success) return;
  cuda_.destroy_stream.pointer(stream);
  Context popped = nullptr;
  cuda_.pop_context.pointer(&popped);
}

Stream GpuDevice::stream_behind_default() {
  const Stream own = stream(false);
  const Event held = mark(nullptr);
  try {
    wait_on(own, held);
  } catch (...) {
    give_back(held);
    throw;
  }
  give_back(held);
  return own;
}

void GpuDevice::require_own(Stream stream) {
  if (reinterpret_cast<std::uintptr_t>(stream) == stream_of_thread)
    throw UsageError(
        "the stream is cudaStreamPerThread, which is another stream on each thread, and threads of "
        "hymn launch operations, too",
        {.remedy = "give a stream that was made, or cudaStreamLegacy"});
  // Of the default streams it tells whose the thread's context is: they are used from there.
  Context found = nullptr;
  call(cuda_, cuda_.context_of_stream, stream, &found);
  if (found == context()) return;
  throw UsageError(
      fmt::format("the stream does not belong to GPU {}, on which this rank works", index_),
      {.remedy = fmt::format("give a stream of that GPU (cudaSetDevice({}) before it is made), or "
                             "make a group for the stream's: GroupOptions::gpu",
                             index_)});
}

std::uint64_t GpuDevice::id_of(Stream stream) const {
  unsigned long long id = 0;
  if (cuda_.id_of_stream.pointer != nullptr) call(cuda_, cuda_.id_of_stream, stream, &id);
  return id;
}

bool GpuDevice::is_capturing(Stream stream) {
  CaptureStatus status = capture_none;
  call(cuda_, cuda_.is_capturing, stream, &status);
  return status == capture_active;
}

Event GpuDevice::mark(Stream stream) {
  const Entry entry(*this);
  Event event = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!free_events_.empty()) {
      event = free_events_.back();
      free_events_.pop_back();
    }
  }
  if (event == nullptr) call(cuda_, cuda_.make_event, &event, event_without_timing);
  try {
    call(cuda_, cuda_.record_event, event, stream);
  } catch (...) {
    give_back(event);
    throw;
  }
  return event;
}

bool GpuDevice::has_happened(Event event) const {
  const auto& query = cuda_.query_event;
  if (query.pointer == nullptr) throw_lacking("libcuda.so.1", query.name);
  const RelaxedCapture relaxed(cuda_);
  const Result result = query.pointer(event);
  if (result == not_ready) return false;
  if (result != success) throw_cuda_error(cuda_, query.name, result);
  return true;
}

bool GpuDevice::is_over(Event event) const noexcept {
  try {
    return has_happened(event);
  } catch (...) {
    return true;
  }
}

void GpuDevice::wait_on(Stream stream, Event event) {
  const Entry entry(*this);
  call(cuda_, cuda_.wait_event, stream, event, wait_by_default);
}

void GpuDevice::give_back(Event event) {
  std::lock_guard lock(mutex_);
  free_events_.push_back(event);
}

}  // namespace hymn
