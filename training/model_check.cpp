#include "training/model_check.hpp"

#include <fmt/format.h>

#include "hymn/objects.hpp"
#include "training/host_hook.hpp"

namespace hymn::training::detail {
namespace {

/// A line for each parameter, and before them one of the options.
using Description = std::vector<std::string>;

/// Which GPU it is does not matter, and has another number on each rank; but whose others are
/// there.
std::string describe_gpu(int number) {
  return number < 0 ? "" : fmt::format(", on GPU #{} of its model", number);
}

std::string describe(const Parameter& parameter) {
  return fmt::format("{} of {} with sizes {} and strides {}", parameter.name,
                     to_string(parameter.data.dtype), list_text(parameter.data.shape),
                     list_text(parameter.data.strides)) +
         (parameter.sparse_dims != 0
              ? fmt::format(", {} of them sparse in gradients", parameter.sparse_dims)
              : "") +
         (parameter.data.shape.empty() ? fmt::format(", {} elements", parameter.data.count) : "");
}

Description describe(const Model& model, const ReducerOptions& options) {
  Description lines = {fmt::format(
      "buckets of {} and {} bytes, gradient_as_bucket_view {}, find_unused_parameters {}, "
      "static_graph {}, broadcast_parameters {}, {} hook",
      options.first_bucket_bytes, options.bucket_bytes, options.gradient_as_bucket_view,
      options.find_unused_parameters, options.static_graph, options.broadcast_parameters,
      options.hook ? "a" : "no")};
  for (std::size_t i = 0; i < model.buffers().size(); ++i) {
    const BufferView& buffer = model.buffers()[i];
    lines.front() += fmt::format(", a buffer of {} {} with sizes {} and strides {}{}", buffer.count,
                                 to_string(buffer.dtype), list_text(buffer.shape),
                                 list_text(buffer.strides), describe_gpu(model.gpu_of_buffer(i)));
  }
  for (std::size_t i = 0; i < model.size(); ++i)
    lines.push_back(describe(model[i]) + describe_gpu(model.gpu_of(i)));
  return lines;
}

/// Empty: none.
std::string difference(const Description& mine, const Description& first) {
  if (mine.front() != first.front())
    return fmt::format("the options in this process ({}) are not those in process 0 ({})",
                       mine.front(), first.front());
  if (mine.size() != first.size())
    return fmt::format("this process has {} parameters, and process 0 has {}", mine.size() - 1,
                       first.size() - 1);
  for (std::size_t i = 1; i < mine.size(); ++i)
    if (mine[i] != first[i])
      return fmt::format(
          "parameter {} in this process ({}) appears not to match strides of the "
          "same param in process 0 ({})",
          i - 1, mine[i], first[i]);
  return {};
}

// A rank that has no model says why, so that the others do not wait for it.
void require_agreement(const ProcessGroup& group, const Description& mine,
                       const std::string& problem) {
  Description first = mine;
  broadcast_object(group, first, group.global_rank(0));
  const bool compares = problem.empty() && !first.empty();
  const std::vector<std::string> told =
      all_gather_object(group, compares ? difference(mine, first) : problem);
  const ErrorContext context{.rank = group.global_rank(group.rank()),
                             .group = group.description(),
                             .operation = "GradientReducer",
                             .remedy = "build the same model with the same options on all ranks"};
  const auto own = static_cast<std::size_t>(group.rank());
  if (!told[own].empty()) throw UsageError(told[own], context);
  for (std::size_t i = 0; i < told.size(); ++i)
    if (!told[i].empty())
      throw UsageError(fmt::format("rank {}: {}", group.global_rank(static_cast<int>(i)), told[i]),
                       context);
}

}  // namespace

std::shared_ptr<const Model> agreed_model(const ProcessGroup& group,
                                          std::vector<Parameter> parameters,
                                          const ReducerOptions& options) {
  std::shared_ptr<Model> made;
  try {
    made = std::make_shared<Model>(group, std::move(parameters), options.buffers,
                                   !options.gradient_as_bucket_view);
    if (made->is_on_gpus()) require_hook_for_gpus(options.hook);
  } catch (const std::exception& error) {
    const auto* const own = dynamic_cast<const Error*>(&error);
    try {
      require_agreement(group, {}, own != nullptr ? own->problem() : error.what());
    } catch (const UsageError&) {  // it says the same
    }
    throw;
  }
  require_agreement(group, describe(*made, options), {});
  made->forget_shapes_of_buffers();
  return made;
}

}  // namespace hymn::training::detail
