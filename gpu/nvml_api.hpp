// What hymn uses of NVML: names and values are those of its API reference (docs.nvidia.com).
#pragma once

#include <array>

#include "gpu/function.hpp"

namespace hymn::nvml_api {

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

}  // namespace hymn::nvml_api
