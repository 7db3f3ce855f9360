// Which devices a module may be on.
#pragma once

#include "hymn/standard.hpp"  // first

#include <set>
#include <string>

#include "hymn/torch_reducer.hpp"

namespace hymn::torch::detail {

/// The parameters, unless options and the devices that they are on do not go together, in the words
/// of torch.nn.parallel.DistributedDataParallel.
inline const NamedTensors& require_devices(const NamedTensors& parameters,
                                           const DdpOptions& options) {
  if (parameters.empty())
    throw Error(hymnUsageError,
                "DistributedDataParallel is not needed when a module doesn't have any parameters "
                "that require a gradient");
  if (options.device_ids.size() > 1)
    throw Error(hymnUsageError, "device_ids can only be None or contain a single element.");
  std::set<std::string> devices;
  std::set<c10::DeviceType> types;
  for (const auto& [name, tensor] : parameters) {
    devices.insert(tensor.device().str());
    types.insert(tensor.device().type());
  }
  if (types.size() > 1)
    throw Error(hymnUsageError,
                "DistributedDataParallel's input module must be on the same type of devices, and "
                "its parameters are on " +
                    *devices.begin() + " and " + *devices.rbegin());
  const bool is_on_one_gpu = devices.size() == 1 && *types.begin() != c10::DeviceType::CPU;
  if ((!options.device_ids.empty() || options.output_device) && !is_on_one_gpu)
    throw Error(hymnUsageError,
                "DistributedDataParallel device_ids and output_device arguments only work with "
                "single-device/multiple-device GPU modules or CPU modules without them: this one "
                "is on " +
                    *devices.begin());
  return parameters;
}

}  // namespace hymn::torch::detail
