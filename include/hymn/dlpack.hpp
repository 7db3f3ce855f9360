// DLPack, by which torch, NumPy, CuPy and JAX hand arrays to each other without copying them.
//
// The structs have the published layout of dlpack.h (dmlc/dlpack, ABI 1), which need not be there:
// a DLManagedTensor* of that header may be cast to a dlpack::ManagedTensor*, and back. They belong
// to libhymn-functional.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstdint>

#include "hymn/array.hpp"
#include "hymn/export.hpp"

namespace hymn {

namespace dlpack {

enum DeviceType : std::int32_t { cpu = 1, cuda = 2, cuda_host = 3, cuda_managed = 13 };
enum TypeCode : std::uint8_t {
  signed_integer = 0,
  unsigned_integer = 1,
  floating = 2,
  bfloat = 4,
  complex = 5,
  boolean = 6,
  float8_e4m3fn = 10,
  float8_e5m2 = 12,
};

struct Device {  // DLDevice
  std::int32_t type = cpu;
  std::int32_t id = 0;
};
struct Type {  // DLDataType
  std::uint8_t code = 0;
  std::uint8_t bits = 0;
  std::uint16_t lanes = 1;
};
struct Tensor {  // DLTensor
  void* data = nullptr;
  Device device{};
  std::int32_t dimensions = 0;
  Type dtype{};
  std::int64_t* shape = nullptr;
  std::int64_t* strides = nullptr;  ///< in elements; null: the last dimension runs fastest
  std::uint64_t byte_offset = 0;
};
struct ManagedTensor {  // DLManagedTensor
  Tensor tensor{};
  void* context = nullptr;
  void (*deleter)(ManagedTensor* self) = nullptr;
};
struct Version {  // DLPackVersion
  std::uint32_t major = 1;
  std::uint32_t minor = 0;
};
inline constexpr std::uint64_t read_only = 1;  // DLPACK_FLAG_BITMASK_READ_ONLY
struct VersionedTensor {                       // DLManagedTensorVersioned
  Version version{};
  void* context = nullptr;
  void (*deleter)(VersionedTensor* self) = nullptr;
  std::uint64_t flags = 0;
  Tensor tensor{};
};

}  // namespace dlpack

/// The array takes the tensor over, and calls its deleter when nobody uses the memory any more.
/// UnsupportedError, and the tensor stays the caller's, for types and devices that hymn does not
/// have.
HYMN_API Array from_dlpack(dlpack::ManagedTensor* tensor);
/// UnsupportedError for a major version other than 1, too.
HYMN_API Array from_dlpack(dlpack::VersionedTensor* tensor);

/// The caller's, who calls the deleter; the memory lives until then. Waits for a pending array.
/// UnsupportedError for memory of a GPU, whose number an array does not know.
HYMN_API dlpack::ManagedTensor* to_dlpack(const Array& array);
HYMN_API dlpack::VersionedTensor* to_dlpack_versioned(const Array& array);

}  // namespace hymn
