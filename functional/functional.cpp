#include "hymn/functional.hpp"

#include "functional/collective.hpp"
#include "functional/recorder.hpp"

namespace hymn::functional {
namespace {

/// The line of the program that calls the function which this is inlined into: errors and dumps
/// tell it.
HYMN_INLINE CallOptions from_here(const CallOptions& options) {
  CallOptions sited = options;
  if (options.site == CallSite::of_the_call)
    sited.site = CallSite{reinterpret_cast<std::uintptr_t>(__builtin_return_address(0))};
  return sited;
}

Array call_one(const Collective& collective, const Array& array, const Where& where,
               const CallOptions& options) {
  return call(collective, std::span(&array, 1), where, options).front();
}

Collective gather(std::int64_t dimension) {
  return {.operation = Operation::all_gather_tensor, .dimensions = {dimension}};
}

Collective scatter(ReduceOp reduction, std::int64_t dimension) {
  return {.operation = Operation::reduce_scatter_tensor,
          .reduction = reduction,
          .dimensions = {dimension}};
}

Collective exchange(const Splits& output_splits, const Splits& input_splits) {
  return {.operation = Operation::all_to_all_single,
          .input_splits = input_splits,
          .output_splits = output_splits};
}

Differentiable with_gradient(const Collective& forward, const Collective& backward,
                             const Array& array, const Where& where, const CallOptions& options) {
  Array result = call_one(forward, array, where, options);
  const ArraySpec gradient = result.spec();
  return {std::move(result), Vjp(backward, where, gradient)};
}

}  // namespace

Array all_reduce(const Array& array, Reduction reduction, const Where& where,
                 const CallOptions& options) {
  return call_one({.operation = Operation::all_reduce, .reduction = reduction.op()}, array, where,
                  from_here(options));
}

std::vector<Array> all_reduce_coalesced(std::span<const Array> arrays, Reduction reduction,
                                        const Where& where, const CallOptions& options) {
  return call({.operation = Operation::all_reduce_coalesced, .reduction = reduction.op()}, arrays,
              where, from_here(options));
}

Array all_gather_tensor(const Array& array, std::int64_t dimension, const Where& where,
                        const CallOptions& options) {
  return call_one(gather(dimension), array, where, from_here(options));
}

std::vector<Array> all_gather_into_tensor_coalesced(std::span<const Array> arrays,
                                                    const Where& where,
                                                    const CallOptions& options) {
  return call({.operation = Operation::all_gather_into_tensor_coalesced,
               .dimensions = std::vector<std::int64_t>(arrays.size())},
              arrays, where, from_here(options));
}

Array reduce_scatter_tensor(const Array& array, Reduction reduction, std::int64_t dimension,
                            const Where& where, const CallOptions& options) {
  return call_one(scatter(reduction.op(), dimension), array, where, from_here(options));
}

std::vector<Array> reduce_scatter_tensor_coalesced(std::span<const Array> arrays,
                                                   Reduction reduction,
                                                   std::span<const std::int64_t> dimensions,
                                                   const Where& where, const CallOptions& options) {
  return call({.operation = Operation::reduce_scatter_tensor_coalesced,
               .reduction = reduction.op(),
               .dimensions = {dimensions.begin(), dimensions.end()}},
              arrays, where, from_here(options));
}

Array broadcast(const Array& array, int root, const Where& where, const CallOptions& options) {
  return call_one({.operation = Operation::broadcast, .root = root}, array, where,
                  from_here(options));
}

Array all_to_all_single(const Array& array, const Splits& output_splits, const Splits& input_splits,
                        const Where& where, const CallOptions& options) {
  return call_one(exchange(output_splits, input_splits), array, where, from_here(options));
}

Array permute_tensor(const Array& array, std::span<const int> destinations, const Where& where,
                     const CallOptions& options) {
  return call_one({.operation = Operation::permute_tensor,
                   .destinations = {destinations.begin(), destinations.end()}},
                  array, where, from_here(options));
}

Array wait_tensor(const Array& array) {
  array.wait();
  return array;
}

Array apply(std::string_view name, std::span<const Array> inputs, const ArraySpec& result,
            const Step& step) {
  bool is_meta = false;
  for (const Array& input : inputs) {
    input.wait();
    is_meta = is_meta || input.is_meta();
  }
  const Array made = is_meta ? Array::meta(result) : Array::empty(result.shape, result.dtype);
  if (!is_meta) {
    const detail::NotRecorded inside;  // what the step reads and writes is the step's
    step(inputs, made);
  }
  if (detail::Recorder* recorder = detail::Recorder::current())
    recorder->record_step(name, inputs, made, step);
  return made;
}

Array Vjp::operator()(const Array& gradient, const CallOptions& options) const {
  if (gradient.valid() && gradient.spec() != gradient_)
    throw UsageError("the gradient has not the shape and dtype of the result",
                     detail::context_of(backward_, where_));
  const detail::Backward backward;
  return call_one(backward_, gradient, where_, from_here(options));
}

Differentiable all_to_all_single_autograd(const Array& array, const Splits& output_splits,
                                          const Splits& input_splits, const Where& where,
                                          const CallOptions& options) {
  return with_gradient(exchange(output_splits, input_splits), exchange(input_splits, output_splits),
                       array, where, from_here(options));
}

Differentiable all_gather_tensor_autograd(const Array& array, std::int64_t dimension,
                                          const Where& where, const CallOptions& options) {
  return with_gradient(gather(dimension), scatter(ReduceOp::sum, dimension), array, where,
                       from_here(options));
}

Differentiable reduce_scatter_tensor_autograd(const Array& array, Reduction reduction,
                                              std::int64_t dimension, const Where& where,
                                              const CallOptions& options) {
  const Collective forward = scatter(reduction.op(), dimension);
  if (reduction.op().kind() != ReduceKind::sum)
    throw UnsupportedError("only a sum has a gradient here",
                           detail::context_of(forward, where, "divide a sum for an average"));
  return with_gradient(forward, gather(dimension), array, where, from_here(options));
}

}  // namespace hymn::functional
