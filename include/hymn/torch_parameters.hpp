// What of a module is trained, and whether it can be.
#pragma once

#include "hymn/standard.hpp"  // first

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "hymn/torch_options.hpp"
#include "hymn/torch_tensors.hpp"

namespace hymn::torch::detail {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
  bool has_sparse_gradient = false;
};
using NamedTensors = std::vector<NamedTensor>;

using Tables = std::unordered_set<const c10::TensorImpl*>;

inline void note_table(const ::torch::nn::Module& module, Tables& tables) {
  using ::torch::nn::EmbeddingBagImpl;
  using ::torch::nn::EmbeddingImpl;
  const auto* const one = dynamic_cast<const EmbeddingImpl*>(&module);
  if (one != nullptr && one->options.sparse()) tables.insert(one->weight.unsafeGetTensorImpl());
  const auto* const bag = dynamic_cast<const EmbeddingBagImpl*>(&module);
  if (bag != nullptr && bag->options.sparse()) tables.insert(bag->weight.unsafeGetTensorImpl());
}

/// The tables of embeddings whose gradients are sparse.
inline Tables sparse_tables(const ::torch::nn::Module& module) {
  Tables tables;
  note_table(module, tables);
  for (const auto& each : module.modules(false)) note_table(*each, tables);
  return tables;
}

/// Those that can have gradients, each once: names may share one.
inline NamedTensors trained_parameters(const ::torch::nn::Module& module) {
  NamedTensors parameters;
  const Tables sparse = sparse_tables(module);
  Tables seen;
  for (const auto& item : module.named_parameters()) {
    const c10::TensorImpl* const tensor = item.value().unsafeGetTensorImpl();
    if (item.value().requires_grad() && seen.insert(tensor).second)
      parameters.push_back({item.key(), item.value(), sparse.count(tensor) != 0});
  }
  return parameters;
}

inline NamedTensors buffers_of(const ::torch::nn::Module& module, bool wanted) {
  NamedTensors buffers;
  if (!wanted) return buffers;
  for (const auto& item : module.named_buffers())
    if (item.value().defined()) buffers.push_back({item.key(), item.value()});
  return buffers;
}

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
  for (const NamedTensor& each : parameters) {
    devices.insert(each.tensor.device().str());
    types.insert(each.tensor.device().type());
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

inline std::string sizes_text(const at::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes())
    text += (text.empty() ? "[" : ", ") + std::to_string(size);
  return text.empty() ? "[]" : text + "]";
}

[[noreturn]] inline void throw_moved(const std::string& name, const at::Tensor& now,
                                     const at::Tensor& before) {
  throw Error(hymnUsageError,
              name + " is " + now.toString() + " of sizes " + sizes_text(now) + " now, and was " +
                  before.toString() + " of sizes " + sizes_text(before) +
                  ", in other memory, when it was wrapped: convert and load modules before, or "
                  "wrap them anew");
}

/// A tensor may be given other memory (Module::to(), set_data()); what a reducer was given stays as
/// long as it does, but is nobody's then.
inline void require_unmoved(const std::string& name, const at::Tensor& now,
                            const at::Tensor& before) {
  if (now.scalar_type() != before.scalar_type() || now.device() != before.device() ||
      now.sizes() != before.sizes() || now.data_ptr() != before.data_ptr())
    throw_moved(name, now, before);
}

/// What all must be that a reducer is given, as a reducer's own error would come too late for the
/// other ranks.
inline void require_usable(const NamedTensor& each) {
  require_host_tensor(each.tensor, each.name.c_str());
  data_type_of(each.tensor.scalar_type());
  if (!each.tensor.is_non_overlapping_and_dense())
    throw Error(hymnUsageError, "the elements of " + each.name +
                                    " do not lie one after the other, in any order of the "
                                    "dimensions");
}

/// One tensor may have several names; but not several tensors one memory, which would be reduced
/// several times.
inline void require_apart(const NamedTensors& parameters) {
  std::unordered_map<const void*, std::string> names;
  for (const NamedTensor& each : parameters) {
    if (!each.tensor.defined() || !each.tensor.device().is_cpu() || each.tensor.numel() == 0)
      continue;
    const auto [found, is_new] = names.emplace(each.tensor.data_ptr(), each.name);
    if (!is_new)
      throw Error(hymnUsageError, found->second + " and " + each.name +
                                      " are two tensors in the same memory: register one of them, "
                                      "under both names");
  }
}

}  // namespace hymn::torch::detail
