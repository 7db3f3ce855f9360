#include "hymn/dlpack.hpp"

#include <memory>
#include <string>

#include "functional/layout.hpp"
#include "functional/storage.hpp"

namespace hymn {
namespace {

struct TypeRow {
  DataType ours;
  dlpack::TypeCode code;
  std::uint8_t bits;
};

constexpr TypeRow type_rows[] = {
    {DataType::boolean, dlpack::boolean, 8},
    {DataType::int8, dlpack::signed_integer, 8},
    {DataType::int16, dlpack::signed_integer, 16},
    {DataType::int32, dlpack::signed_integer, 32},
    {DataType::int64, dlpack::signed_integer, 64},
    {DataType::uint8, dlpack::unsigned_integer, 8},
    {DataType::uint16, dlpack::unsigned_integer, 16},
    {DataType::uint32, dlpack::unsigned_integer, 32},
    {DataType::uint64, dlpack::unsigned_integer, 64},
    {DataType::float16, dlpack::floating, 16},
    {DataType::bfloat16, dlpack::bfloat, 16},
    {DataType::float32, dlpack::floating, 32},
    {DataType::float64, dlpack::floating, 64},
    {DataType::complex64, dlpack::complex, 64},
    {DataType::complex128, dlpack::complex, 128},
    {DataType::float8_e4m3fn, dlpack::float8_e4m3fn, 8},
    {DataType::float8_e5m2, dlpack::float8_e5m2, 8},
};

[[noreturn]] void refuse(const std::string& problem) {
  throw UnsupportedError(problem, {.operation = "DLPack"});
}

DataType type_from(const dlpack::Type& type) {
  for (const TypeRow& row : type_rows)
    if (row.code == type.code && row.bits == type.bits && type.lanes == 1) return row.ours;
  refuse("hymn has no elements of code " + std::to_string(type.code) + ", " +
         std::to_string(type.bits) + " bits, " + std::to_string(type.lanes) + " lanes");
}

dlpack::Type type_to(DataType dtype) {
  for (const TypeRow& row : type_rows)
    if (row.ours == dtype) return {row.code, row.bits, 1};
  refuse("DLPack has no elements of " + std::string(to_string(dtype)));
}

MemoryKind memory_from(const dlpack::Device& device) {
  switch (device.type) {
    case dlpack::cpu:
      return MemoryKind::host;
    case dlpack::cuda_host:
      return MemoryKind::pinned;
    case dlpack::cuda:
      return MemoryKind::device;
    case dlpack::cuda_managed:
      return MemoryKind::managed;
    default:  // a number of another program's
      refuse("hymn has no memory of DLPack's device type " + std::to_string(device.type));
  }
}

Array array_from(const dlpack::Tensor& tensor, const std::function<std::shared_ptr<void>()>& own,
                 bool is_read_only) {
  ArraySpec spec{{}, type_from(tensor.dtype)};
  const MemoryKind memory = memory_from(tensor.device);
  const auto dimensions = static_cast<std::size_t>(tensor.dimensions);
  if (dimensions > 0) spec.shape.assign(tensor.shape, tensor.shape + dimensions);
  Shape strides = functional::detail::row_major(spec.shape);
  if (dimensions > 0 && tensor.strides != nullptr)
    strides.assign(tensor.strides, tensor.strides + dimensions);
  auto* data = static_cast<std::byte*>(tensor.data);
  if (data != nullptr) data += tensor.byte_offset;
  auto storage = std::make_shared<functional::detail::Storage>(data, memory, own());
  if (is_read_only) storage->make_read_only();
  return {std::move(storage), std::move(spec), std::move(strides), 0};
}

template <class Managed>
Array taken_over(Managed* managed, bool is_read_only) {
  return array_from(
      managed->tensor,
      [managed] {
        return std::shared_ptr<void>(managed, [](void* mine) {
          auto* tensor = static_cast<Managed*>(mine);
          if (tensor->deleter != nullptr) tensor->deleter(tensor);
        });
      },
      is_read_only);
}

/// What is handed out, with what it is made of.
template <class Managed>
struct Handed {
  Managed managed{};
  Array array;
  Shape shape;
  Shape strides;
};

template <class Managed>
Managed* handed_out(const Array& array) {
  const dlpack::Type type = type_to(array.dtype());
  if (array.memory() == MemoryKind::device || array.memory() == MemoryKind::managed)
    refuse("of an array in the memory of a GPU hymn does not know which GPU it is");
  auto handed = std::make_unique<Handed<Managed>>();
  handed->array = array;
  handed->shape = array.shape();
  handed->strides = array.strides();
  Managed& managed = handed->managed;
  managed.tensor = {
      .data = const_cast<void*>(array.data()),
      .device = {array.memory() == MemoryKind::pinned ? dlpack::cuda_host : dlpack::cpu, 0},
      .dimensions = static_cast<std::int32_t>(handed->shape.size()),
      .dtype = type,
      .shape = handed->shape.data(),
      .strides = handed->strides.data()};
  managed.context = handed.get();
  managed.deleter = [](Managed* self) { delete static_cast<Handed<Managed>*>(self->context); };
  return &handed.release()->managed;
}

}  // namespace

Array from_dlpack(dlpack::ManagedTensor* tensor) { return taken_over(tensor, false); }

Array from_dlpack(dlpack::VersionedTensor* tensor) {
  if (tensor->version.major != 1)
    refuse("hymn reads DLPack 1, and not " + std::to_string(tensor->version.major));
  return taken_over(tensor, (tensor->flags & dlpack::read_only) != 0);
}

dlpack::ManagedTensor* to_dlpack(const Array& array) {
  return handed_out<dlpack::ManagedTensor>(array);
}

dlpack::VersionedTensor* to_dlpack_versioned(const Array& array) {
  auto* tensor = handed_out<dlpack::VersionedTensor>(array);
  if (array.storage()->is_read_only()) tensor->flags |= dlpack::read_only;
  return tensor;
}

}  // namespace hymn
