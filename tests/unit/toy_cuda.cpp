// The CUDA driver of the toy GPUs: contexts, streams and events.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "tests/unit/toy_state.hpp"

namespace hymn::test {
namespace {

using namespace cuda_api;

/// Of this thread, the current one last. Nothing is destroyed with the thread: the driver is used
/// until the process has ended.
struct Contexts {
  std::array<Context, 32> all;
  std::size_t count;

  void push(Context context) { all.at(count++) = context; }
  Context pop() { return all.at(--count); }
  Context current() const { return count == 0 ? nullptr : all.at(count - 1); }
};
thread_local Contexts contexts;
thread_local CaptureMode mode_of_thread = capture_global;

Context context_of(int gpu) {
  return reinterpret_cast<Context>(static_cast<std::uintptr_t>(gpu) + 1);
}

/// The default stream of the legacy kind is that of the GPU that is current; the one of each thread
/// has no object: nothing is ever on it.
ToyStream* find_stream(Stream stream) {
  const auto handle = reinterpret_cast<std::uintptr_t>(stream);
  if (handle <= 1 && contexts.current() != nullptr) return &toy->default_stream(toy_current_gpu());
  for (ToyStream& known : toy->streams)
    if (static_cast<void*>(&known) == static_cast<void*>(stream)) {
      if (known.is_destroyed) toy->violation("a stream that was destroyed");
      return &known;
    }
  return nullptr;
}

ToyEvent* as_event(Event event) { return static_cast<ToyEvent*>(static_cast<void*>(event)); }

/// As the driver's, beside a capture it is a violation.
Result forbidden(const char* what) {
  std::lock_guard lock(toy->mutex);
  return toy_unsafe(what);
}

/// Under the toys' mutex.
void give_memory_back(void* pointer) {
  toy->memory.free(reinterpret_cast<std::uintptr_t>(pointer));
  if (toy->shared)
    toy->shared->free(pointer);
  else
    ::operator delete(pointer, std::align_val_t(64));
}

Result get_init(unsigned) { return success; }
Result get_count(int* count) { return *count = toy->gpus, success; }
Result get_device(Device* device, int index) { return *device = 100 + index, success; }
Result get_uuid(Uuid* uuid, Device device) {
  uuid->bytes.fill(static_cast<unsigned char>(device - 100 + toy->first_visible));
  return success;
}
Result get_context(Context* context, Device device) {
  return *context = context_of(device - 100), success;
}
Result release_context(Device) { return success; }
Result set_context(Context context) {
  contexts.count = 0;
  contexts.push(context);
  return success;
}
Result push_context(Context context) {
  contexts.push(context);
  return success;
}
Result pop_context(Context* context) {
  *context = contexts.pop();
  return success;
}
Result get_priorities(int* least, int* greatest) { return *least = 0, *greatest = -5, success; }

Result make_stream(Stream* stream, unsigned, int priority) {
  std::lock_guard lock(toy->mutex);
  ToyStream& made = toy->make_stream(toy_current_gpu());
  made.high = priority < 0;
  *stream = static_cast<Stream>(static_cast<void*>(&made));
  return success;
}
Result destroy_stream(Stream stream) {
  std::lock_guard lock(toy->mutex);
  toy->destroy_stream(*find_stream(stream));
  return success;
}
Result id_of_stream(Stream stream, unsigned long long* id) {
  std::lock_guard lock(toy->mutex);
  const ToyStream* const found = find_stream(stream);
  *id = found != nullptr ? found->id : ~0ULL - reinterpret_cast<std::uintptr_t>(stream);
  return success;
}
Result exchange_capture_mode(CaptureMode* mode) {
  std::swap(*mode, mode_of_thread);
  return success;
}
Result context_of_stream(Stream stream, Context* context) {
  std::lock_guard lock(toy->mutex);
  const ToyStream* const found = find_stream(stream);
  *context = found != nullptr ? context_of(found->gpu) : contexts.current();
  return success;
}
Result is_capturing(Stream stream, CaptureStatus* status) {
  std::lock_guard lock(toy->mutex);
  *status = find_stream(stream)->is_capturing ? capture_active : capture_none;
  return success;
}

Result make_event(Event* event, unsigned flags) {
  std::lock_guard lock(toy->mutex);
  ToyEvent& made = toy->events.emplace_back();
  made.has_timing = (flags & event_without_timing) == 0;
  *event = static_cast<Event>(static_cast<void*>(&made));
  return success;
}
Result destroy_event(Event event) {
  std::lock_guard lock(toy->mutex);
  toy->events.remove_if([event](const ToyEvent& known) { return &known == as_event(event); });
  return success;
}
Result record_event(Event event, Stream stream) {
  std::lock_guard lock(toy->mutex);
  const ToyStream* const known = find_stream(stream);
  as_event(event)->happened = std::make_shared<bool>(known == nullptr);
  as_event(event)->is_captured = known != nullptr && known->is_capturing;
  if (known == nullptr) return success;
  const auto now = [at = as_event(event)->milliseconds] {
    const auto since_boot = std::chrono::steady_clock::now().time_since_epoch();
    *at = std::chrono::duration<double, std::milli>(since_boot).count();
  };
  toy_enqueue(stream, {.work = now, .sets = as_event(event)->happened});
  return success;
}
Result get_elapsed(float* milliseconds, Event from, Event to) {
  std::lock_guard lock(toy->mutex);
  for (const Event event : {from, to})
    if (!as_event(event)->has_timing || !*as_event(event)->happened)
      toy->violation("the time of an event that has none");
  *milliseconds = static_cast<float>(*as_event(to)->milliseconds - *as_event(from)->milliseconds);
  return success;
}
Result query_event(Event event) {
  std::unique_lock lock(toy->mutex);
  ++toy->event_queries;
  if (const Result result = toy_unsafe("cuEventQuery"); result != success) return result;
  if (as_event(event)->is_captured) toy->violation("an event of a graph was asked for");
  if (const auto failure = toy->failures.find("query"); failure != toy->failures.end())
    return failure->second;
  toy->progress();
  if (*as_event(event)->happened) return success;
  if (const auto act = std::exchange(toy->after_look, nullptr)) {
    lock.unlock();
    act();
  }
  return not_ready;
}
Result wait_event(Stream stream, Event event, unsigned) {
  std::lock_guard lock(toy->mutex);
  toy_enqueue(stream, {.awaits = as_event(event)->happened});
  return success;
}

Result allocate(Pointer* pointer, std::size_t bytes) {
  if (const Result result = forbidden("cuMemAlloc"); result != success) return result;
  *pointer = reinterpret_cast<Pointer>(toy_allocate(toy_current_gpu(), bytes, MemoryKind::device));
  std::lock_guard lock(toy->mutex);
  ++toy->allocations;
  return success;
}
Result release(Pointer pointer) {
  if (const Result result = forbidden("cuMemFree"); result != success) return result;
  toy_free(reinterpret_cast<void*>(pointer));
  std::lock_guard lock(toy->mutex);
  --toy->allocations;
  return success;
}
Result get_attribute(int* value, int which, Device) {
  std::lock_guard lock(toy->mutex);
  if (which == attribute_multiprocessors) return *value = multiprocessors_of_toy_gpu, success;
  return *value = which == attribute_memory_pools && toy->has_memory_pools ? 1 : 0, success;
}
// Memory in the order of streams. What is captured stays with the toys: a graph may run often.
Result allocate_on(Pointer* pointer, std::size_t bytes, Stream stream) {
  std::lock_guard lock(toy->mutex);
  ++toy->counts["allocate_on"];
  if (const auto failure = toy->failures.extract("allocate_on")) return failure.mapped();
  if (bytes == 0) toy->violation("no bytes in the order of a stream");
  void* made = nullptr;
  if (find_stream(stream)->is_capturing) {
    made = ::operator new(bytes, std::align_val_t(64));
    toy->memory_of_graphs.emplace_back(
        made, [](void* memory) { ::operator delete(memory, std::align_val_t(64)); });
    ++find_stream(stream)->open_in_graph;
  } else {
    made = toy_allocate(toy_current_gpu(), bytes, MemoryKind::device);
    ++toy->open_on_streams;
  }
  *pointer = reinterpret_cast<Pointer>(made);
  return success;
}
Result release_on(Pointer pointer, Stream stream) {
  std::lock_guard lock(toy->mutex);
  if (const auto failure = toy->failures.extract("release_on")) return failure.mapped();
  if (find_stream(stream)->is_capturing) {
    --find_stream(stream)->open_in_graph;
  } else {
    toy_enqueue(stream, {.work = [pointer] {
                  give_memory_back(reinterpret_cast<void*>(pointer));
                  --toy->open_on_streams;
                }});
  }
  return success;
}
Result fill(Pointer pointer, unsigned char value, std::size_t bytes) {
  std::lock_guard lock(toy->mutex);
  if (const Result result = toy_unsafe("cuMemsetD8"); result != success) return result;
  std::memset(reinterpret_cast<void*>(pointer), value, bytes);
  return success;
}
Result fill_on(Pointer pointer, unsigned char value, std::size_t bytes, Stream stream) {
  std::lock_guard lock(toy->mutex);
  toy_enqueue(stream,
              {.work = [=] { std::memset(reinterpret_cast<void*>(pointer), value, bytes); }});
  return success;
}
Result allocate_pinned(void** pointer, std::size_t bytes, unsigned) {
  if (const Result result = forbidden("cuMemHostAlloc"); result != success) return result;
  return *pointer = ::operator new(bytes), success;
}
Result free_pinned(void* pointer) {
  if (const Result result = forbidden("cuMemFreeHost"); result != success) return result;
  ::operator delete(pointer);
  return success;
}
Result copy(void* to, const void* from, std::size_t bytes, Stream stream) {
  std::lock_guard lock(toy->mutex);
  toy_enqueue(stream, {.work = [=] { std::memcpy(to, from, bytes); }});
  return success;
}
Result to_gpu_on(Pointer to, const void* from, std::size_t bytes, Stream stream) {
  return copy(reinterpret_cast<void*>(to), from, bytes, stream);
}
Result to_host_on(void* to, Pointer from, std::size_t bytes, Stream stream) {
  return copy(to, reinterpret_cast<const void*>(from), bytes, stream);
}
Result copy_on(Pointer to, Pointer from, std::size_t bytes, Stream stream) {
  return copy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes, stream);
}

}  // namespace

void toy_begin_capture(ToyStream& stream, CaptureMode mode) {
  stream.is_capturing = true;
  stream.capture_mode = mode;
  stream.capturing = std::this_thread::get_id();
  stream.is_broken = false;
}

Result toy_unsafe(const char* what) {
  Result result = success;
  for (ToyStream& stream : toy->streams)
    if (stream.is_capturing && mode_of_thread != capture_relaxed &&
        (stream.capture_mode == capture_global ||
         (stream.capture_mode != capture_relaxed &&
          stream.capturing == std::this_thread::get_id()))) {
      stream.is_broken = true;
      toy->violation(std::string(what) + " has broken a capture");
      result = stream_capture_unsupported;
    }
  return result;
}

int toy_current_gpu() {
  return static_cast<int>(reinterpret_cast<std::uintptr_t>(contexts.current())) - 1;
}

void* toy_allocate(int gpu, std::size_t bytes, MemoryKind kind) {
  void* const made = toy->shared
                         ? toy->shared->allocate(bytes)
                         : ::operator new(std::max<std::size_t>(bytes, 1), std::align_val_t(64));
  toy->memory.allocate(
      {.kind = kind, .gpu = gpu, .begin = reinterpret_cast<std::uintptr_t>(made), .bytes = bytes});
  return made;
}

// As the driver's, it waits for what is on its way: that may be using it. What waits for something
// that has not come yet does not count, other than on a real GPU, where to free would hang.
void toy_free(void* pointer) {
  const auto longest = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (std::chrono::steady_clock::now() < longest) {
    {
      std::lock_guard lock(toy->mutex);
      toy->progress();
      if (toy->is_idle_aside()) break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  // Another rank's thread may have carried out what wrote to it last.
  std::lock_guard lock(toy->mutex);
  give_memory_back(pointer);
}

void toy_enqueue(Stream stream, ToyTask task) {
  ToyStream* const found = find_stream(stream);
  if (found == nullptr) {
    toy->violation("a stream that is none");
  } else if (found->is_capturing) {
    found->graph.push_back(std::move(task));
  } else {
    found->tasks.push_back(std::move(task));
    toy->progress();
  }
}

cuda_api::Functions toy_cuda(const ToyState& state) {
  cuda_api::Functions functions = state.memory.functions;
  functions.init.pointer = get_init;
  functions.count.pointer = get_count;
  functions.device.pointer = get_device;
  functions.attribute.pointer = get_attribute;
  functions.uuid.pointer = get_uuid;
  functions.retain_context.pointer = get_context;
  functions.release_context.pointer = release_context;
  functions.set_context.pointer = set_context;
  functions.push_context.pointer = push_context;
  functions.pop_context.pointer = pop_context;
  functions.priorities.pointer = get_priorities;
  functions.make_stream.pointer = make_stream;
  functions.destroy_stream.pointer = destroy_stream;
  functions.context_of_stream.pointer = context_of_stream;
  functions.id_of_stream.pointer = id_of_stream;
  functions.exchange_capture_mode.pointer = exchange_capture_mode;
  functions.is_capturing.pointer = is_capturing;
  functions.make_event.pointer = make_event;
  functions.destroy_event.pointer = destroy_event;
  functions.record_event.pointer = record_event;
  functions.query_event.pointer = query_event;
  functions.wait_event.pointer = wait_event;
  functions.elapsed.pointer = get_elapsed;
  functions.allocate.pointer = allocate;
  functions.release.pointer = release;
  functions.attribute.pointer = get_attribute;
  functions.allocate_on.pointer = allocate_on;
  functions.release_on.pointer = release_on;
  functions.fill.pointer = fill;
  functions.fill_on.pointer = fill_on;
  functions.allocate_pinned.pointer = allocate_pinned;
  functions.free_pinned.pointer = free_pinned;
  functions.to_gpu_on.pointer = to_gpu_on;
  functions.to_host_on.pointer = to_host_on;
  functions.copy_on.pointer = copy_on;
  add_toy_kernels(functions);
  add_toy_ipc_staging(functions);
  return functions;
}

}  // namespace hymn::test
