// The functions of the CUDA driver and of NVML that tell about GPUs, as tables that tests can fill.
//
// They are declared here, so that building needs no header of NVIDIA's and running no driver. Names
// and values are those of the CUDA Driver API and the NVML API reference (docs.nvidia.com);
// tests/unit/gpu_abi_test.cpp holds them against cuda.h and nvml.h where these are installed. Both
// interfaces are stable: what changes gets a new name, such as "_v2".
#pragma once

#include <array>
#include <cstddef>
#include <string>

#include "topology/gpu_probe.hpp"

namespace hymn {

/// A function of a library that is loaded at run time.
template <typename Signature>
struct Function {
  const char* name;
  Signature* pointer = nullptr;  ///< null: this version of the library does not have it
};

/// A driver that counts more is out of its mind.
constexpr unsigned max_gpus_of_a_host = 1024;

namespace cuda_api {

using Result = int;
using Device = int;
struct Uuid {
  std::array<unsigned char, 16> bytes;
};
constexpr Result success = 0;
constexpr int attribute_compute_major = 75;
constexpr int attribute_compute_minor = 76;

struct Functions {
  Function<Result(unsigned)> init{"cuInit"};
  Function<Result(Result, const char**)> error_name{"cuGetErrorName"};
  Function<Result(int*)> driver_version{"cuDriverGetVersion"};
  Function<Result(int*)> count{"cuDeviceGetCount"};
  Function<Result(Device*, int)> device{"cuDeviceGet"};
  Function<Result(char*, int, Device)> name{"cuDeviceGetName"};
  /// The first version tells the UUID of the whole GPU where the second tells that of a slice.
  Function<Result(Uuid*, Device)> uuid{"cuDeviceGetUuid_v2"};
  Function<Result(Uuid*, Device)> old_uuid{"cuDeviceGetUuid"};
  Function<Result(std::size_t*, Device)> total_memory{"cuDeviceTotalMem_v2"};
  Function<Result(int*, int, Device)> attribute{"cuDeviceGetAttribute"};
  Function<Result(char*, int, Device)> pci_bus_id{"cuDeviceGetPCIBusId"};
  Function<Result(int*, Device, Device)> can_access_peer{"cuDeviceCanAccessPeer"};
};

}  // namespace cuda_api

namespace nvml_api {

using Result = int;
using Device = struct DeviceHandle*;
constexpr Result success = 0;
constexpr Result invalid_argument = 2;
constexpr Result not_supported = 3;
constexpr unsigned max_links = 36;
constexpr unsigned capability_p2p = 0;
constexpr unsigned remote_gpu = 0;
constexpr unsigned remote_switch = 2;
/// Topology levels. What lies between two of them is no value.
constexpr unsigned level_multiple_switches = 20;
constexpr unsigned level_node = 40;
constexpr unsigned level_system = 50;
constexpr unsigned field_common_link_speed = 90;
constexpr unsigned field_link_speed = 164;  // of the link in `scope`

struct PciInfo {
  std::array<char, 16> legacy_bus_id;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  std::array<char, 32> bus_id;
};

/// The kinds of FieldValue::value.
constexpr unsigned type_double = 0;
constexpr unsigned type_unsigned_int = 1;
constexpr unsigned type_unsigned_long = 2;
constexpr unsigned type_unsigned_long_long = 3;

struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp;
  long long latency;
  unsigned type;
  Result result;
  union {
    double as_double;
    unsigned as_unsigned_int;
    unsigned long as_unsigned_long;
    unsigned long long as_unsigned_long_long;
  } value;
};

struct Functions {
  Function<Result()> init{"nvmlInit_v2"};
  Function<Result()> shutdown{"nvmlShutdown"};
  Function<const char*(Result)> error_string{"nvmlErrorString"};
  Function<Result(char*, unsigned)> driver_version{"nvmlSystemGetDriverVersion"};
  Function<Result(unsigned*)> count{"nvmlDeviceGetCount_v2"};
  Function<Result(unsigned, Device*)> device{"nvmlDeviceGetHandleByIndex_v2"};
  Function<Result(Device, char*, unsigned)> uuid{"nvmlDeviceGetUUID"};
  Function<Result(Device, PciInfo*)> pci_info{"nvmlDeviceGetPciInfo_v3"};
  Function<Result(Device, unsigned, unsigned*)> link_state{"nvmlDeviceGetNvLinkState"};
  Function<Result(Device, unsigned, unsigned, unsigned*)> link_capability{
      "nvmlDeviceGetNvLinkCapability"};
  Function<Result(Device, unsigned, unsigned*)> link_remote_type{
      "nvmlDeviceGetNvLinkRemoteDeviceType"};
  Function<Result(Device, unsigned, PciInfo*)> link_remote_pci{
      "nvmlDeviceGetNvLinkRemotePciInfo_v2"};
  Function<Result(Device, int, FieldValue*)> field_values{"nvmlDeviceGetFieldValues"};
  Function<Result(Device, Device, unsigned*)> common_ancestor{
      "nvmlDeviceGetTopologyCommonAncestor"};
};

}  // namespace nvml_api

struct GpuFunctions {
  cuda_api::Functions cuda;
  nvml_api::Functions nvml;
  std::string cuda_problem;  ///< why the library could not be loaded; empty: it was
  std::string nvml_problem;
};

/// Loads both libraries once and keeps them: drivers do not expect to be unloaded.
const GpuFunctions& loaded_gpu_functions();

}  // namespace hymn
