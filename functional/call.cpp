// A collective on elements: the request that the group carries out, and what is done with the data
// before and after it.
#include <deque>
#include <memory>
#include <string>

#include "functional/collective.hpp"
#include "functional/fail.hpp"
#include "functional/layout.hpp"
#include "functional/recorder.hpp"
#include "functional/storage.hpp"
#include "hymn/error.hpp"

namespace hymn::functional {
namespace {

using detail::copied;
using detail::Flight;
using detail::Recorder;

/// The dimension first, and the others in their order.
Array with_first(const Array& array, std::size_t dimension) {
  Shape order{static_cast<std::int64_t>(dimension)};
  for (std::size_t i = 0; i < array.dimensions(); ++i)
    if (i != dimension) order.push_back(static_cast<std::int64_t>(i));
  return array.permute(order);
}

/// The part of each rank first.
Array parts_first(const Array& array, std::size_t dimension, int ranks) {
  return with_first(array.unflatten(static_cast<std::int64_t>(dimension), ranks), dimension);
}

std::byte* memory_of(const Array& array) {
  return array.storage()->data() +
         array.offset() * static_cast<std::int64_t>(size_of(array.dtype()));
}

BufferView view_of_all(const Array& array) {
  return {memory_of(array), static_cast<std::size_t>(array.count()), array.dtype(), array.memory()};
}

/// Requests of one call, and what they need until it has ended.
class Launch {
 public:
  Launch(const Collective& collective, ProcessGroup group, Flight& flight)
      : collective_(collective), group_(std::move(group)), flight_(flight) {}

  Array add(const Array& input, const ArraySpec& result) {
    const std::size_t index = requests_.size();
    Array output = Array::empty(result.shape, result.dtype);
    flight_.keep(output.storage()->owner());
    requests_.push_back(request(input, output, index));
    return output;
  }

  void start(const CallOptions& options) {
    Work work = traits_of(collective_.operation).is_coalesced
                    ? group_.start_coalesced(requests_, options)
                    : group_.start(requests_.front(), options);
    if (!work.valid()) {
      flight_.give_memory_up();  // the scope may still start it
      throw UsageError("a result is not there inside a coalescing scope",
                       {.rank = group_.global_rank(group_.rank()),
                        .operation = std::string(traits_of(collective_.operation).name),
                        .remedy = "use the functions that coalesce by themselves"});
    }
    flight_.start(std::move(work));
  }

 private:
  Request request(const Array& input, const Array& output, std::size_t index) {
    switch (collective_.operation) {
      case Operation::all_reduce:
      case Operation::all_reduce_coalesced:
        return Request::all_reduce(dense(input), view_of_all(output), collective_.reduction);
      case Operation::all_gather_tensor:
      case Operation::all_gather_into_tensor_coalesced:
        return Request::all_gather(dense(input), OutputBlocks::equal(gathered(output, index)));
      case Operation::reduce_scatter_tensor:
      case Operation::reduce_scatter_tensor_coalesced: {
        const std::size_t dimension = detail::dimension_of(collective_, index, input.dimensions());
        const Array parts = parts_first(input, dimension, group_.size());
        return Request::reduce_scatter(InputBlocks::equal(dense(parts)), view_of_all(output),
                                       collective_.reduction);
      }
      case Operation::broadcast:
        if (group_.global_rank(group_.rank()) == collective_.root) copy(input, output);
        return Request::broadcast(view_of_all(output), collective_.root);
      case Operation::all_to_all_single:
        return exchange(input, output);
      case Operation::permute_tensor:
        return permute(input, output);
    }
    return {};
  }

  ConstBufferView dense(const Array& input) {
    const Array array = input.is_contiguous() ? input : copied(input);
    flight_.keep(array.storage());
    return view_of_all(array);
  }

  /// Where the parts of all ranks come one after the other, and go from to their places.
  BufferView gathered(const Array& output, std::size_t index) {
    const std::size_t dimension = detail::dimension_of(collective_, index, output.dimensions());
    const Array places = parts_first(output, dimension, group_.size());
    if (places.is_contiguous()) return view_of_all(output);
    const Array parts = Array::empty(places.shape(), places.dtype());
    flight_.keep(parts.storage());
    flight_.then(
        [shape = places.shape(), strides = places.strides(), to = memory_of(output), parts] {
          detail::copy_elements(to, memory_of(parts),
                                {shape, strides, parts.strides(), size_of(parts.dtype())});
        });
    return view_of_all(parts);
  }

  static void copy(const Array& input, const Array& output) {
    detail::copy_elements(
        memory_of(output), memory_of(input),
        {input.shape(), output.strides(), input.strides(), size_of(input.dtype())});
  }

  Request exchange(const Array& input, const Array& output) {
    if (!collective_.input_splits.has_value())
      return Request::all_to_all(InputBlocks::equal(dense(input)),
                                 OutputBlocks::equal(view_of_all(output)));
    std::int64_t row = 1;
    for (std::size_t i = 1; i < input.dimensions(); ++i) row *= input.shape()[i];
    const auto counts = [&](const std::vector<std::int64_t>& splits) {
      std::vector<std::size_t>& list = counts_.emplace_back();
      for (const std::int64_t size : splits) list.push_back(static_cast<std::size_t>(size * row));
      return std::span<const std::size_t>(list);
    };
    return Request::all_to_all(
        InputBlocks::counted(dense(input), counts(*collective_.input_splits)),
        OutputBlocks::counted(view_of_all(output), counts(*collective_.output_splits)));
  }

  Request permute(const Array& input, const Array& output) {
    const auto size = static_cast<std::size_t>(group_.size());
    const auto count = static_cast<std::size_t>(input.count());
    const auto own = static_cast<std::size_t>(group_.rank());
    std::vector<std::size_t>& sent = counts_.emplace_back(size);
    std::vector<std::size_t>& received = counts_.emplace_back(size);
    for (std::size_t from = 0; from < size; ++from) {
      const auto to = static_cast<std::size_t>(collective_.destinations[from]);
      if (from == own) sent[to] = count;
      if (to == own) received[from] = count;
    }
    return Request::all_to_all(InputBlocks::counted(dense(input), sent),
                               OutputBlocks::counted(view_of_all(output), received));
  }

  const Collective& collective_;
  ProcessGroup group_;
  Flight& flight_;
  std::vector<Request> requests_;
  std::deque<std::vector<std::size_t>> counts_;  // requests point into it
};

bool are_meta(const Collective& collective, std::span<const Array> inputs, const Where& where) {
  for (const Array& input : inputs) {
    if (input.is_meta() != inputs.front().is_meta())
      throw UsageError("some of the arrays are meta, and some are not",
                       detail::context_of(collective, where));
    if (!input.is_meta() && input.memory() == MemoryKind::device)
      throw UnsupportedError("the array is in the memory of a GPU",
                             detail::context_of(collective, where,
                                                "functional collectives work in that of the host; "
                                                "those of ProcessGroup take both"));
  }
  return inputs.front().is_meta();
}

std::vector<ArraySpec> specs_of(const Collective& collective, std::span<const Array> inputs,
                                const Where& where) {
  std::vector<ArraySpec> specs;
  for (const Array& input : inputs) {
    if (!input.valid())
      throw UsageError("the array is empty: it has neither shape nor dtype",
                       detail::context_of(collective, where));
    specs.push_back(input.spec());
  }
  return specs;
}

}  // namespace

std::vector<Array> call(const Collective& collective, std::span<const Array> inputs,
                        const Where& where, const CallOptions& options) {
  const std::vector<ArraySpec> results =
      results_of(collective, specs_of(collective, inputs, where), where);
  const bool is_meta = are_meta(collective, inputs, where);
  for (const Array& input : inputs) input.wait();
  auto flight =
      std::make_shared<Flight>(where.rank(), std::string(traits_of(collective.operation).name));
  std::vector<Array> outputs;
  if (is_meta) {
    for (const ArraySpec& result : results) outputs.push_back(Array::meta(result));
  } else {
    Launch launch(collective, where.group(), *flight);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      outputs.push_back(launch.add(inputs[i], results[i]));
    const detail::NotRecorded inside;  // as a call of ProcessGroup
    launch.start(options);
  }
  for (const Array& output : outputs) output.storage()->comes_from(flight);
  if (Recorder* recorder = Recorder::current())
    recorder->record_collective(collective, inputs, outputs, where);
  return outputs;
}

}  // namespace hymn::functional
