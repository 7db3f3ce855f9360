#include "training/model.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

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

void require_usable(const Parameter& parameter, const std::string& name) {
  const BufferView& data = parameter.data;
  if (data.memory != MemoryKind::host)
    throw UnsupportedError(fmt::format("{} is in the memory of a GPU", name),
                           {.operation = "GradientReducer",
                            .remedy = "reduce the gradients of GPUs by all_reduce_coalesced"});
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

}  // namespace

void require_usable(const BufferView& buffer, std::size_t index) {
  const ErrorContext context{.operation = "GradientReducer",
                             .remedy =
                                 "give buffers in the memory of the host, without gaps and "
                                 "overlaps, or none (they are broadcast)"};
  if (buffer.memory != MemoryKind::host)
    throw UnsupportedError(fmt::format("buffer {} is in the memory of a GPU", index), context);
  if ((buffer.data == nullptr && buffer.count != 0) ||
      ((!buffer.shape.empty() || !buffer.strides.empty()) && !lies_densely(buffer)))
    throw UsageError(
        fmt::format("the {} elements of buffer {} do not lie densely: sizes {}, "
                    "strides {}",
                    buffer.count, index, list_text(buffer.shape), list_text(buffer.strides)),
        context);
}

std::string list_text(std::span<const std::int64_t> numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

Model::Model(std::vector<Parameter> parameters, bool has_gradients) {
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
    if (has_gradients && parameter.sparse_dims == 0) take_gradient(i);
  }
}

void Model::take_gradient(std::size_t index) {
  const BufferView& data = entries_[index].parameter.data;
  BufferView& gradient = entries_[index].parameter.gradient;
  const ErrorContext context{.operation = "GradientReducer",
                             .remedy =
                                 "give a gradient of the type, shape and strides of the "
                                 "values, or ask for gradient_as_bucket_view"};
  if (gradient.data == nullptr && data.count != 0)
    throw UsageError(fmt::format("{} has no place for its gradient", name_of(index)), context);
  if (gradient.dtype != data.dtype || gradient.memory != data.memory || !lie_alike(gradient, data))
    throw UsageError(
        fmt::format("the gradient of {} ({} of sizes {} and strides {}) does not lie as its values "
                    "do ({} of sizes {} and strides {})",
                    name_of(index), to_string(gradient.dtype), list_text(gradient.shape),
                    list_text(gradient.strides), to_string(data.dtype), list_text(data.shape),
                    list_text(data.strides)),
        context);
  gradient.shape = data.shape;
  gradient.strides = data.strides;
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
