#include "collectives/validate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "collectives/layout.hpp"
#include "collectives/located_request.hpp"
#include "collectives/validate_view.hpp"
#include "hymn/process_group.hpp"

namespace hymn {
namespace {

constexpr const char* same_counts = "counts are in elements, and must agree on all ranks";

[[noreturn]] void refuse_counts(std::string_view what, std::size_t found, std::size_t wanted) {
  throw UsageError(fmt::format("{} is {} elements where {} are needed", what, found, wanted),
                   {.remedy = same_counts});
}

void require_count(std::string_view what, std::size_t found, std::size_t wanted) {
  if (found != wanted) refuse_counts(what, found, wanted);
}

/// Given counts are the same on all ranks, also on those whose own buffer is not on that side.
template <class View>
void validate_own_count(const Blocks<View>& blocks, GroupShape shape, std::size_t own_count) {
  if (blocks.layout() != Layout::counted) return;
  const std::size_t given = blocks.counts().size();
  if (given != static_cast<std::size_t>(shape.size))
    throw UsageError(fmt::format("{} counts are given for {} ranks", given, shape.size));
  require_count("this rank's own count", own_count,
                blocks.counts()[static_cast<std::size_t>(shape.rank)]);
}

/// The block of this rank, against the one buffer on the other side.
template <class View>
void validate_blocks(std::string_view side, const Blocks<View>& blocks, GroupShape shape,
                     std::size_t own_count) {
  const auto parts = static_cast<std::size_t>(shape.size);
  const auto rank = static_cast<std::size_t>(shape.rank);
  switch (blocks.layout()) {
    case Layout::equal:
      if (own_count > std::numeric_limits<std::size_t>::max() / parts ||
          blocks.flat().count != own_count * parts)
        throw UsageError(fmt::format("the {} buffer is {} elements where {} ranks of {} are needed",
                                     side, blocks.flat().count, parts, own_count),
                         {.remedy = same_counts});
      break;
    case Layout::counted: {
      validate_own_count(blocks, shape, own_count);
      std::size_t sum = 0;
      for (const std::size_t count : blocks.counts()) {
        // One at a time, so that the sum cannot wrap.
        if (count > blocks.flat().count)
          refuse_counts("one of the given counts", count, blocks.flat().count);
        sum += count;
      }
      require_count(fmt::format("the {} buffer", side), blocks.flat().count, sum);
      break;
    }
    case Layout::list:
      if (blocks.views().size() != parts)
        throw UsageError(fmt::format("a list of {} {} buffers is given for {} ranks",
                                     blocks.views().size(), side, parts));
      require_count(fmt::format("this rank's own {} buffer", side), blocks.views()[rank].count,
                    own_count);
      break;
    case Layout::none:
    case Layout::whole:
      throw UsageError(fmt::format("no {} buffers are given on a rank that needs them", side));
  }
}

template <class View>
void validate_views(std::string_view side, const Blocks<View>& blocks) {
  for (const View& view : blocks.views()) validate_view(side, ConstBufferView(view));
}

template <class View>
void require_type(const ConstBufferView& first, std::span<const View> views, bool is_used) {
  for (const View& view : views) {
    if (!is_used && (view.data == nullptr || view.count == 0)) continue;
    if (view.dtype != first.dtype)
      throw UsageError(fmt::format("tensors with different dtypes in one call: {} and {}",
                                   to_string(first.dtype), to_string(view.dtype)),
                       {.remedy = "give all buffers of a call the same dtype"});
    if (view.dtype == DataType::value && view.element_bytes() != first.element_bytes())
      throw UsageError(fmt::format("values of {} and of {} bytes in one call",
                                   first.element_bytes(), view.element_bytes()),
                       {.remedy = "give values of one type in a call"});
  }
}

/// Of the side that does not count here those buffers, too, that hold something: who is not the
/// root need not wait for the root to find out.
void require_one_dtype(const Request& request, bool has_input, bool has_output) {
  const auto inputs = request.inputs.views();
  const auto outputs = request.outputs.views();
  if (inputs.empty() && outputs.empty()) return;
  const bool by_input = !inputs.empty() && (has_input || outputs.empty());
  const ConstBufferView first = by_input ? inputs.front() : ConstBufferView(outputs.front());
  require_type(first, inputs, has_input);
  require_type(first, outputs, has_output);
}

/// The input may be the output's own block, exactly, or must lie apart from the output.
template <class Whole, class Own>
void require_apart(const Blocks<Whole>& blocks, const Own& own, GroupShape shape) {
  if (own.bytes() == 0) return;
  blocks.for_each(shape.size, [&](int index, const Whole& block) {
    if (index == shape.rank && block.data == own.data) return;
    if (overlap(ConstBufferView(block), ConstBufferView(own))) refuse_overlap();
  });
}

/// Returns the buffers of a list in the order of their addresses, without those that hold nothing.
std::vector<BufferView> require_apart_each_other(const OutputBlocks& outputs) {
  if (outputs.layout() != Layout::list) return {};
  std::vector<BufferView> sorted(outputs.views().begin(), outputs.views().end());
  std::erase_if(sorted, [](const BufferView& view) { return view.bytes() == 0; });
  std::sort(sorted.begin(), sorted.end(),
            [](const auto& a, const auto& b) { return std::less<const void*>()(a.data, b.data); });
  for (std::size_t i = 1; i < sorted.size(); ++i)
    if (overlap(sorted[i - 1], sorted[i])) refuse_overlap();
  return sorted;
}

/// Whether it overlaps one of these, which are sorted and apart from each other. Only the last that
/// begins before its end can: the others end before that one begins.
bool overlaps_any(std::span<const BufferView> sorted, const ConstBufferView& view) {
  const auto* const end = static_cast<const std::byte*>(view.data) + view.bytes();
  const auto behind = std::partition_point(sorted.begin(), sorted.end(), [end](const auto& other) {
    return std::less<const void*>()(other.data, end);
  });
  return behind != sorted.begin() && overlap(*std::prev(behind), view);
}

/// These need a copy of the input, and the layout of another library's type is not known here.
void refuse_opaque_in_place(const Request& request) {
  if (request.inputs.flat().dtype == DataType::opaque && request.inputs.flat().count != 0)
    throw UnsupportedError("in-place calls are not possible with a type of another library",
                           {.remedy = "give an output that is separate from the input"});
}

void validate_all_to_all(const Request& request, GroupShape shape) {
  const bool both_equal =
      request.inputs.layout() == Layout::equal && request.outputs.layout() == Layout::equal;
  const auto parts = static_cast<std::size_t>(shape.size);
  if (both_equal)
    require_count("the output buffer", request.outputs.flat().count, request.inputs.flat().count);
  if (request.inputs.layout() == Layout::equal && request.inputs.flat().count % parts != 0)
    throw UsageError(fmt::format("{} elements cannot be split equally over {} ranks",
                                 request.inputs.flat().count, parts));
  const std::size_t own =
      request.inputs.layout() == Layout::equal ? request.inputs.flat().count / parts
      : request.inputs.layout() == Layout::counted && request.inputs.counts().size() == parts
          ? request.inputs.counts()[static_cast<std::size_t>(shape.rank)]
      : request.inputs.layout() == Layout::list && request.inputs.views().size() == parts
          ? request.inputs.views()[static_cast<std::size_t>(shape.rank)].count
          : 0;
  validate_blocks("input", request.inputs, shape, own);
  validate_blocks("output", request.outputs, shape, own);
  const std::vector<BufferView> sorted = require_apart_each_other(request.outputs);
  if (both_equal && request.inputs.flat().data == request.outputs.flat().data) {
    refuse_opaque_in_place(request);
    return;
  }
  const std::span<const BufferView> outputs =
      request.outputs.layout() == Layout::list ? sorted : request.outputs.views();
  request.inputs.for_each(shape.size, [outputs](int, const ConstBufferView& block) {
    if (overlaps_any(outputs, block)) refuse_overlap();
  });
}

void validate_whole(const Request& request) {
  const ConstBufferView& in = request.inputs.flat();
  const BufferView& out = request.outputs.flat();
  require_count("the output buffer", out.count, in.count);
  if (in.data != out.data && overlap(in, ConstBufferView(out))) refuse_overlap();
}

void require_defined(OpType type, ReduceKind kind) {
  const std::string reason = why_undefined(type, kind);
  if (!reason.empty())
    throw UnsupportedError(
        fmt::format("{} of {} is not defined: {}", to_string(type), to_string(kind), reason),
        {.remedy = "take the sum, and divide it by the number of ranks that are in it"});
}

/// What a complex number is made of; any other type is its own.
constexpr DataType part_of(DataType dtype) {
  return dtype == DataType::complex64    ? DataType::float32
         : dtype == DataType::complex128 ? DataType::float64
                                         : dtype;
}

using Sizes = std::vector<std::int64_t>;

/// Of the parts of complex elements: one more dimension, which runs fastest.
template <class View>
Sizes sizes_of_parts(const View& view) {
  Sizes sizes(view.shape.begin(), view.shape.end());
  if (!sizes.empty()) sizes.push_back(2);
  return sizes;
}
template <class View>
Sizes strides_of_parts(const View& view) {
  Sizes strides;
  for (const std::int64_t stride : view.strides) strides.push_back(2 * stride);
  if (!strides.empty()) strides.push_back(1);
  return strides;
}

/// The other way round: {shape, strides} without that dimension. Rows may be cut in any way: of
/// those that have none nothing is told.
std::pair<Sizes, Sizes> layout_of_complex(std::string_view side, const ConstBufferView& view) {
  Sizes sizes(view.shape.begin(), view.shape.end());
  Sizes strides = strides_of(view);
  const bool has_parts = !sizes.empty() && sizes.back() == 2 && strides.back() == 1;
  if (!has_parts && order_of(view) == 0) return {};
  if (!has_parts)
    throw UsageError(
        fmt::format("the {} buffer is no real view of complex elements: its layout is {}", side,
                    tell_layout(view)),
        {.remedy = "give real and imaginary parts as its last dimension, which runs fastest"});
  sizes.pop_back();
  strides.pop_back();
  for (std::int64_t& stride : strides) stride /= 2;
  return {std::move(sizes), std::move(strides)};
}

/// The same memory as numbers of that type: complex ones as their parts, or the other way round.
template <class View>
void describe_as(DataType dtype, std::string_view side, View& view, LocatedRequest& request) {
  if (view.dtype == dtype) return;
  validate_view(side, view);  // before its count is doubled
  const bool to_parts = part_of(dtype) == dtype;
  if (!to_parts && view.count % 2 != 0)
    throw UsageError(
        fmt::format("{} real elements are not a whole number of complex ones", view.count));
  auto [shape, strides] = to_parts ? std::pair(sizes_of_parts(view), strides_of_parts(view))
                                   : layout_of_complex(side, view);
  view.count = to_parts ? view.count * 2 : view.count / 2;
  view.dtype = dtype;
  view.shape = request.keep(std::move(shape));
  view.strides = request.keep(std::move(strides));
}

void require_usable(const ReduceOp& op, std::size_t element_bytes) {
  if (op.kind() != ReduceKind::custom) return;
  const CustomReduction* const custom = op.custom_reduction();
  if (custom == nullptr || custom->function == nullptr)
    throw UsageError("the custom reduction has no function",
                     {.remedy = "take one from reduce_by, or fill a CustomReduction"});
  if (custom->element_bytes != element_bytes)
    throw UsageError(
        fmt::format("the custom reduction is of values of {} bytes, the buffers' have {}",
                    custom->element_bytes, element_bytes),
        {.remedy = "give a reduction of the type that the buffers hold"});
}

void validate_tag(const Request& request) {
  if (request.tag < 0 || request.tag > ProcessGroup::max_tag)
    throw UsageError(fmt::format("tag {} is not in 0 … {}", request.tag, ProcessGroup::max_tag));
}

}  // namespace

std::string why_undefined(OpType type, ReduceKind kind) {
  const bool is_prefix = type == OpType::scan || type == OpType::exscan;
  return is_prefix && kind == ReduceKind::avg ? "by how many ranks to divide differs" : "";
}

std::shared_ptr<const Request> match_complex_views(const Request& request) {
  if (request.type != OpType::all_gather || request.inputs.views().empty()) return nullptr;
  const auto outputs = request.outputs.views();
  const DataType in = request.inputs.dtype();
  const DataType out = request.outputs.dtype();
  const auto is_alike = [out](const BufferView& view) { return view.dtype == out; };
  const bool is_mixed = !std::ranges::all_of(outputs, is_alike);
  if (in == out && !is_mixed) return nullptr;
  const auto has_its_parts = [in](const BufferView& view) {
    return part_of(view.dtype) == part_of(in);
  };
  if (!std::ranges::all_of(outputs, has_its_parts)) return nullptr;
  const auto matched = std::make_shared<LocatedRequest>(request);
  describe_as(is_mixed ? part_of(in) : out, "input", matched->inputs.front(), *matched);
  if (is_mixed)
    for (BufferView& view : matched->outputs) describe_as(part_of(in), "output", view, *matched);
  matched->point_to_views();
  return {matched, &matched->request};
}

void validate(const Request& request, GroupShape shape, int root) {
  // Of what a rank other than the root passes on the root's side only the dtype is looked at.
  const bool has_input = uses_inputs(request.type, shape.rank == root);
  const bool has_output = uses_outputs(request.type, shape.rank == root);
  static constexpr InputBlocks no_inputs;
  static constexpr OutputBlocks no_outputs;
  const InputBlocks& inputs = has_input ? request.inputs : no_inputs;
  const OutputBlocks& outputs = has_output ? request.outputs : no_outputs;
  validate_views("input", inputs);
  validate_views("output", outputs);
  require_one_dtype(request, has_input, has_output);
  if (reduces(request.type)) require_usable(request.op, request.inputs.element_bytes());
  if (reduces(request.type) && request.op.kind() == ReduceKind::opaque &&
      request.op.handle() == nullptr)
    throw UsageError("the operation of another library has no handle");
  switch (request.type) {
    case OpType::all_reduce:
      validate_whole(request);
      break;
    case OpType::scan:
    case OpType::exscan:
      require_defined(request.type, request.op.kind());
      validate_whole(request);
      break;
    case OpType::reduce:
      if (has_output) validate_whole(request);
      break;
    case OpType::gather:
      validate_own_count(request.outputs, shape, request.inputs.flat().count);
      if (has_output) {
        validate_blocks("output", request.outputs, shape, request.inputs.flat().count);
        require_apart(request.outputs, request.inputs.flat(), shape);
        require_apart_each_other(request.outputs);
      }
      break;
    case OpType::scatter:
      validate_own_count(request.inputs, shape, request.outputs.flat().count);
      if (has_input) {
        validate_blocks("input", request.inputs, shape, request.outputs.flat().count);
        require_apart(request.inputs, request.outputs.flat(), shape);
      }
      break;
    case OpType::all_gather:
      validate_blocks("output", request.outputs, shape, request.inputs.flat().count);
      require_apart(request.outputs, request.inputs.flat(), shape);
      require_apart_each_other(request.outputs);
      break;
    case OpType::reduce_scatter:
      validate_blocks("input", request.inputs, shape, request.outputs.flat().count);
      require_apart(request.inputs, request.outputs.flat(), shape);
      if (request.inputs.layout() != Layout::list &&
          overlap(request.inputs.flat(), ConstBufferView(request.outputs.flat())))
        refuse_opaque_in_place(request);
      break;
    case OpType::all_to_all:
      validate_all_to_all(request, shape);
      break;
    case OpType::send:
    case OpType::recv:
    case OpType::probe:
      validate_tag(request);
      break;
    case OpType::broadcast:
    case OpType::barrier:
      break;
    case OpType::batch:
      throw UsageError("a batch is started with batch_isend_irecv");
  }
  if (has_input && has_output) require_fitting_layouts(request, shape);
}

}  // namespace hymn
