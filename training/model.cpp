#include "training/model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "runtime/group/group_gpu.hpp"

namespace hymn::training::detail {
namespace {

bool has_averages(DataType dtype) {
  const DataFamily family = traits_of(dtype).family;
  return family == DataFamily::floating || family == DataFamily::complex;
}

/// Whether it has no gaps, and no element twice; and as many elements as it says.
bool lies_densely(const BufferView& view) {
  if (view.shape.empty()) return view.strides.empty() || view.count == 1;
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // strides, and extents
  std::int64_t count = 1;
  for (std::size_t i = 0; i < view.shape.size(); ++i) count *= view.shape[i];
  if (count < 0 || static_cast<std::size_t>(count) != view.count) return false;
  if (view.strides.empty() || count == 0) return true;
  if (view.strides.size() != view.shape.size()) return false;
  for (std::size_t i = 0; i < view.shape.size(); ++i)
    if (view.shape[i] != 1) steps.emplace_back(view.strides[i], view.shape[i]);
  std::ranges::sort(steps);
  std::int64_t next = 1;
  for (const auto& [stride, extent] : steps) {
    if (stride != next) return false;
    next *= extent;
  }
  return true;
}

/// The GPU in whose memory it is, as the driver numbers them here, which the view is told; -1: in
/// memory that the host reaches.
int locate(BufferView& view, const ProcessGroup& group, const std::string& name) {
  const MemoryAt found = memory_at(group, view.data);
  const bool is_there = found.kind == MemoryKind::device;
  if (view.memory == MemoryKind::device && !is_there)
    throw UsageError(fmt::format("{} is said to be in device memory, but the driver knows of no "
                                 "allocation at {}",
                                 name, view.data),
                     {.operation = "GradientReducer", .remedy = "check whether it has been freed"});
  view.memory = is_there ? MemoryKind::device : MemoryKind::host;
  return is_there ? found.gpu : -1;
}

std::string name_of_gpu(int gpu) {
  return gpu < 0 ? "in memory of the host" : fmt::format("on GPU {}", gpu);
}

void require_usable(const Parameter& parameter, const std::string& name) {
  const BufferView& data = parameter.data;
  if (data.data == nullptr && (data.count != 0 || data.shape.empty()))
    throw UsageError(
        fmt::format("Modules with uninitialized parameters cannot be reduced: {} has "
                    "no values",
                    name),
        {.operation = "GradientReducer",
         .remedy = "run the model once, or give its shapes, before the reducer is made"});
  if (!lies_densely(data))
    throw UsageError(
        fmt::format("the {} elements of {} do not lie densely: sizes {}, strides {}", data.count,
                    name, list_text(data.shape), list_text(data.strides)),
        {.operation = "GradientReducer",
         .remedy = "give a layout without gaps and overlaps, in any order of the dimensions"});
  if (!has_averages(data.dtype))
    throw UsageError(
        fmt::format("{} is of {}, of which there are no averages", name, to_string(data.dtype)),
        {.operation = "GradientReducer",
         .remedy = "give parameters of floating-point or complex types"});
}

void require_sparse_dims(const Parameter& parameter, const std::string& name) {
  if (parameter.sparse_dims <= parameter.data.shape.size()) return;
  throw UsageError(fmt::format("{} dimensions of the gradient of {} are sparse, of {}",
                               parameter.sparse_dims, name, parameter.data.shape.size()),
                   {.operation = "GradientReducer", .remedy = "1 is for rows of an embedding"});
}

bool lie_alike(const BufferView& a, const BufferView& b) {
  return a.count == b.count && std::ranges::equal(a.shape, b.shape) &&
         std::ranges::equal(a.strides, b.strides);
}

void require_usable(const BufferView& buffer, std::size_t index) {
  if ((buffer.data == nullptr && buffer.count != 0) ||
      ((!buffer.shape.empty() || !buffer.strides.empty()) && !lies_densely(buffer)))
    throw UsageError(
        fmt::format("the {} elements of buffer {} do not lie densely: sizes {}, "
                    "strides {}",
                    buffer.count, index, list_text(buffer.shape), list_text(buffer.strides)),
        {.operation = "GradientReducer",
         .remedy = "give buffers without gaps and overlaps, or none (they are broadcast)"});
}

void require_one_kind(int gpu, const std::string& name, int first_gpu, const std::string& first) {
  if ((gpu < 0) == (first_gpu < 0)) return;
  throw UsageError(
      fmt::format("GradientReducer's input module must be on the same type of devices, and {} is "
                  "{}, {} {}",
                  first, name_of_gpu(first_gpu), name, name_of_gpu(gpu)),
      {.operation = "GradientReducer",
       .remedy = "put all parameters into memory of the host, or all of them on GPUs"});
}

void refuse_sparse(const std::string& name, int gpu) {
  throw UnsupportedError(
      fmt::format("{} is {}, where gradients are not sparse", name, name_of_gpu(gpu)),
      {.operation = "GradientReducer",
       .remedy = "make its gradient dense, or put the model into memory of the host"});
}

}  // namespace

std::string list_text(std::span<const std::int64_t> numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

Model::Model(const ProcessGroup& group, std::vector<Parameter> parameters,
             std::vector<BufferView> buffers, bool has_gradients)
    : buffers_(std::move(buffers)) {
  entries_.reserve(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Entry& entry = entries_.emplace_back();
    entry.parameter = std::move(parameters[i]);
    Parameter& parameter = entry.parameter;
    require_usable(parameter, name_of(i));
    entry.shape.assign(parameter.data.shape.begin(), parameter.data.shape.end());
    entry.strides.assign(parameter.data.strides.begin(), parameter.data.strides.end());
    parameter.data.shape = entry.shape;
    parameter.data.strides = entry.strides;
    require_sparse_dims(parameter, name_of(i));
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) require_usable(buffers_[i], i);
  find_parameters(group);
  find_buffers(group);
  for (std::size_t i = 0; i < size(); ++i)
    if (has_gradients && !is_sparse(i)) take_gradient(i, group);
}

void Model::find_parameters(const ProcessGroup& group) {
  std::optional<std::size_t> first;
  for (std::size_t i = 0; i < size(); ++i) {
    Parameter& parameter = entries_[i].parameter;
    if (parameter.data.count == 0) continue;
    const int gpu = locate(parameter.data, group, name_of(i));
    if (first) require_one_kind(gpu, name_of(i), driver_number_of(*first), name_of(*first));
    if (!first) first = i;
    if (gpu >= 0 && is_sparse(i)) refuse_sparse(name_of(i), gpu);
    entries_[i].gpu = number_of(gpu);
  }
  // What has no elements is nowhere: it goes with the first.
  for (Entry& entry : entries_)
    if (entry.parameter.data.count == 0 && !gpus_.empty()) {
      entry.gpu = 0;
      entry.parameter.data.memory = MemoryKind::device;
    }
}

void Model::find_buffers(const ProcessGroup& group) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    BufferView& buffer = buffers_[i];
    const bool is_somewhere = buffer.bytes() != 0;
    gpus_of_buffers_.push_back(
        is_somewhere ? number_of(locate(buffer, group, fmt::format("buffer {}", i))) : -1);
  }
}

/// -1: none.
int Model::number_of(int gpu) {
  if (gpu < 0) return -1;
  const auto known = std::ranges::find(gpus_, gpu);
  const auto number = static_cast<int>(known - gpus_.begin());
  if (known == gpus_.end()) gpus_.push_back(gpu);
  return number;
}

/// -1: in memory of the host.
int Model::driver_number_of(std::size_t index) const {
  const int number = entries_[index].gpu;
  return number < 0 ? -1 : gpus_[static_cast<std::size_t>(number)];
}

void Model::take_gradient(std::size_t index, const ProcessGroup& group) {
  const BufferView& data = entries_[index].parameter.data;
  BufferView& gradient = entries_[index].parameter.gradient;
  const ErrorContext context{.operation = "GradientReducer",
                             .remedy =
                                 "give a gradient of the type, shape and strides of the "
                                 "values, or ask for gradient_as_bucket_view"};
  if (gradient.data == nullptr && data.count != 0)
    throw UsageError(fmt::format("{} has no place for its gradient", name_of(index)), context);
  if (gradient.dtype != data.dtype || !lie_alike(gradient, data))
    throw UsageError(
        fmt::format("the gradient of {} ({} of sizes {} and strides {}) does not lie as its values "
                    "do ({} of sizes {} and strides {})",
                    name_of(index), to_string(gradient.dtype), list_text(gradient.shape),
                    list_text(gradient.strides), to_string(data.dtype), list_text(data.shape),
                    list_text(data.strides)),
        context);
  gradient.shape = data.shape;
  gradient.strides = data.strides;
  if (data.count == 0) {
    gradient.memory = data.memory;
    return;
  }
  const int expected = driver_number_of(index);
  const int gpu = locate(gradient, group, "the gradient of " + name_of(index));
  if (gpu != expected)
    throw UsageError(fmt::format("the gradient of {} is {}, and its values {}", name_of(index),
                                 name_of_gpu(gpu), name_of_gpu(expected)),
                     context);
}

std::string Model::name_of(std::size_t index) const {
  return fmt::format("parameter {} ({})", index, entries_[index].parameter.name);
}

std::string Model::names_of(std::span<const std::size_t> indices) const {
  constexpr std::size_t most = 8;
  std::string names;
  for (const std::size_t index : indices.first(std::min(indices.size(), most)))
    names += (names.empty() ? "" : ", ") + name_of(index);
  if (indices.size() > most) names += fmt::format(" and {} more", indices.size() - most);
  return names;
}

}  // namespace hymn::training::detail
