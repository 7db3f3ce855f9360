#include "tests/unit/fake_memory.hpp"

#include <algorithm>

namespace hymn::test {
namespace {

FakeMemory* memory = nullptr;  // plain functions know nothing else

/// As the driver says it: managed memory counts as the GPU's, with a flag beside.
unsigned type_of(MemoryKind kind) {
  return kind == MemoryKind::pinned ? cuda_api::memory_of_host : cuda_api::memory_of_gpu;
}

void write(void* answer, cuda_api::PointerAttribute attribute, const MemoryAt& at,
           unsigned long long id) {
  switch (attribute) {
    case cuda_api::attribute_memory_type:
      *static_cast<unsigned*>(answer) = type_of(at.kind);
      break;
    case cuda_api::attribute_is_managed:
      *static_cast<unsigned*>(answer) = at.kind == MemoryKind::managed ? 1 : 0;
      break;
    case cuda_api::attribute_gpu:
      *static_cast<int*>(answer) = at.gpu;
      break;
    case cuda_api::attribute_buffer_id:
      *static_cast<unsigned long long*>(answer) = id;
      break;
    case cuda_api::attribute_range_begin:
      *static_cast<cuda_api::Pointer*>(answer) = at.begin;
      break;
    case cuda_api::attribute_range_bytes:
      *static_cast<std::size_t*>(answer) = at.bytes;
      break;
    default:
      break;
  }
}

}  // namespace

FakeMemory::FakeMemory() {
  memory = this;
  functions.pointer_attribute.pointer = get_one;
  functions.pointer_attributes.pointer = get_all;
}

FakeMemory::~FakeMemory() { memory = nullptr; }

void FakeMemory::allocate(MemoryAt made) {
  std::lock_guard lock(mutex_);
  allocations_.push_back({made, ++last_id_});
}

void FakeMemory::free(std::uintptr_t begin) {
  std::lock_guard lock(mutex_);
  std::erase_if(allocations_,
                [begin](const Allocation& known) { return known.memory.begin == begin; });
}

const FakeMemory::Allocation* FakeMemory::find(cuda_api::Pointer pointer) const {
  const auto found =
      std::find_if(allocations_.begin(), allocations_.end(), [pointer](const Allocation& known) {
        return pointer - known.memory.begin < known.memory.bytes;
      });
  return found == allocations_.end() ? nullptr : &*found;
}

std::optional<MemoryAt> FakeMemory::at(const void* pointer) {
  std::lock_guard lock(mutex_);
  const Allocation* const found = find(reinterpret_cast<cuda_api::Pointer>(pointer));
  return found == nullptr ? std::nullopt : std::optional(found->memory);
}

cuda_api::Result FakeMemory::get_one(void* answer, cuda_api::PointerAttribute attribute,
                                     cuda_api::Pointer pointer) {
  std::lock_guard lock(memory->mutex_);
  ++memory->asked_id;
  const Allocation* found = memory->find(pointer);
  if (found == nullptr) return 1;  // invalid value
  write(answer, attribute, found->memory, found->id);
  return cuda_api::success;
}

cuda_api::Result FakeMemory::get_all(unsigned count, cuda_api::PointerAttribute* attributes,
                                     void** answers, cuda_api::Pointer pointer) {
  std::lock_guard lock(memory->mutex_);
  ++memory->asked_all;
  if (memory->failure != cuda_api::success) return memory->failure;
  const Allocation* found = memory->find(pointer);
  for (unsigned i = 0; i < count && found != nullptr; ++i)
    write(answers[i], attributes[i], found->memory, found->id);
  return cuda_api::success;
}

}  // namespace hymn::test
