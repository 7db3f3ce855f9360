#include "gpu/memory_query.hpp"

#include <array>

#include "gpu/cuda_calls.hpp"
#include "gpu/presence.hpp"

namespace hymn {
namespace {

using namespace cuda_api;

// Who allocates for ever must not fill the memory.
constexpr std::size_t most_remembered = 1024;

/// Errors by which the driver says that this thread, or the process by now, has nothing of CUDA.
bool has_nothing(Result result) {
  return result == not_initialized || result == deinitialized || result == invalid_context;
}

MemoryKind kind_of(unsigned type, bool managed) {
  if (managed || type == memory_unified) return MemoryKind::managed;
  if (type == memory_of_gpu) return MemoryKind::device;
  return type == memory_of_host ? MemoryKind::pinned : MemoryKind::host;
}

}  // namespace

MemoryAt MemoryQuery::at(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  std::lock_guard lock(mutex_);
  auto next = known_.upper_bound(address);
  if (next != known_.begin()) {
    const Known& known = std::prev(next)->second;
    if (address - known.memory.begin < known.memory.bytes && is_still(known, address))
      return known.memory;
  }
  const Known asked = ask(address);
  if (asked.memory.bytes > 0) remember(asked);
  return asked.memory;
}

bool MemoryQuery::is_still(const Known& known, Pointer pointer) const {
  unsigned long long id = 0;
  return cuda_.pointer_attribute.pointer != nullptr &&
         cuda_.pointer_attribute.pointer(&id, attribute_buffer_id, pointer) == success &&
         id == known.id;
}

MemoryQuery::Known MemoryQuery::ask(Pointer pointer) const {
  unsigned type = 0;
  unsigned managed = 0;
  int gpu = -1;
  unsigned long long id = 0;
  Pointer begin = 0;
  std::size_t bytes = 0;
  std::array attributes{attribute_memory_type, attribute_is_managed,  attribute_gpu,
                        attribute_buffer_id,   attribute_range_begin, attribute_range_bytes};
  std::array<void*, attributes.size()> answers{&type, &managed, &gpu, &id, &begin, &bytes};
  const auto& get = cuda_.pointer_attributes;
  if (get.pointer == nullptr) throw_lacking("libcuda.so.1", get.name);
  const Result result = get.pointer(static_cast<unsigned>(attributes.size()), attributes.data(),
                                    answers.data(), pointer);
  if (has_nothing(result)) return {};
  if (result != success) throw_cuda_error(cuda_, get.name, result);
  const MemoryKind kind = kind_of(type, managed != 0);
  if (kind == MemoryKind::host) return {};
  return {{.kind = kind, .gpu = gpu, .begin = begin, .bytes = bytes}, id};
}

void MemoryQuery::remember(const Known& known) {
  if (known_.size() >= most_remembered) known_.clear();
  // What began there before is there no more; what reaches into it is found out by its id.
  const MemoryAt& memory = known.memory;
  known_.erase(known_.lower_bound(memory.begin), known_.lower_bound(memory.begin + memory.bytes));
  known_.emplace(memory.begin, known);
}

MemoryQuery* memory_query() {
  static MemoryQuery* const query = why_no_gpus(loaded_gpu_functions()).empty()
                                        ? new MemoryQuery(loaded_gpu_functions().cuda)
                                        : nullptr;
  return query;
}

}  // namespace hymn
