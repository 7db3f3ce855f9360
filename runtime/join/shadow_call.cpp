#include "runtime/join/shadow_call.hpp"

#include <fmt/format.h>

#include "collectives/reduce/identity.hpp"
#include "recorder/call_facts.hpp"

namespace hymn {
namespace {

[[noreturn]] void refuse(const CallRecord& record, std::string_view why, const char* remedy) {
  throw UnsupportedError(fmt::format("{} #{} cannot be shadowed: {}", describe(facts_of(record)),
                                     record.sequence, why),
                         {.remedy = remedy});
}

/// The side whose blocks lie as all ranks must give them; null: there are no blocks.
const CallSide* blocks_of(const CallRecord& record) {
  switch (record.type) {
    case OpType::gather:
    case OpType::all_gather:
      return &record.output;
    case OpType::scatter:
    case OpType::reduce_scatter:
    case OpType::all_to_all:
      return &record.input;
    default:
      return nullptr;
  }
}

/// Blocks of given sizes are not recorded one by one. In a list that all ranks must give alike
/// they are known where they are even.
bool are_blocks_known(const CallRecord& record) {
  const CallSide* const blocks = blocks_of(record);
  if (blocks == nullptr || blocks->layout == Layout::equal) return true;
  const bool alike = record.type == OpType::all_gather || record.type == OpType::reduce_scatter;
  return alike && blocks->layout == Layout::list && blocks->even;
}

DataType dtype_of(const CallRecord& record) {
  const bool gives = record.type != OpType::broadcast && record.type != OpType::scatter;
  return gives ? record.input.dtype : record.output.dtype;
}

std::span<std::byte> as_much_of(std::vector<std::byte>& memory, std::size_t bytes) {
  if (memory.size() < bytes) memory.resize(bytes);
  return std::span(memory).first(bytes);
}

}  // namespace

ShadowCall::ShadowCall(const CallRecord& record, int rank, GroupShape shape,
                       const ShadowOptions& options, ShadowMemory memory)
    : shape_(shape), options_(options), dtype_(dtype_of(record)), memory_(std::move(memory)) {
  if (dtype_ == DataType::opaque)
    refuse(record, "only another library knows the type of its elements",
           "use joinables, whose hooks can make the call");
  if (!are_blocks_known(record))
    refuse(record, "its blocks have sizes of their own, which are not recorded",
           "give equal blocks, or use joinables");
  const bool is_root = record.peer == rank;
  request_ = reduces(record.type) ? reduction(record, is_root) : movement(record, is_root);
  if (reduces(record.type))
    fill_given(record, {.dtype = dtype_, .identity_of = record.kind});
  else if (is_root && record.type == OpType::broadcast)
    fill_number(record, taken_, root_fill(record));
  else if (is_root && record.type == OpType::scatter)
    fill_given(record, {.dtype = dtype_, .number = root_fill(record)});
  else
    fill_given(record, {.dtype = dtype_, .number = options_.fill});
}

double ShadowCall::root_fill(const CallRecord& record) const {
  if (!options_.root_fill)
    refuse(
        record, "its root has run out of input, and has nothing to give",
        "let Join::acting_root choose the root, give ShadowOptions::root_fill, or use joinables");
  return *options_.root_fill;
}

void ShadowCall::fill_given(const CallRecord& record, const ShadowMemory::Content& content) {
  if (memory_.content == content && memory_.filled >= given_.size()) return;
  memory_.filled = 0;
  if (!content.identity_of)
    fill_number(record, given_, content.number);
  else if (!fill_identity(given_, dtype_, *content.identity_of))
    refuse(record, "nothing is known that would not change its result", "use joinables");
  memory_.content = content;
  memory_.filled = given_.size();
}

void ShadowCall::fill_number(const CallRecord& record, std::span<std::byte> memory,
                             double number) const {
  if (memory.empty()) return;
  if (!hymn::fill_number(memory, dtype_, number))
    refuse(record, fmt::format("its elements cannot be {}, which ShadowOptions asks for", number),
           "give a number that the type can hold");
}

Request ShadowCall::reduction(const CallRecord& record, bool is_root) {
  const ReduceOp op =
      record.kind == ReduceKind::premul_sum ? ReduceOp::premul_sum(1.0) : ReduceOp::of(record.kind);
  if (record.type == OpType::reduce_scatter) {
    const InputBlocks in = input_blocks(record.input);
    return Request::reduce_scatter(in, output(record.output.count), op);
  }
  const ConstBufferView in = input(record.input.count);
  if (record.type == OpType::all_reduce)
    return Request::all_reduce(in, output(record.input.count), op);
  return Request::reduce(in, output(is_root ? record.input.count : 0), record.peer, op);
}

Request ShadowCall::movement(const CallRecord& record, bool is_root) {
  const auto members = static_cast<std::size_t>(shape_.size);
  switch (record.type) {
    case OpType::broadcast:
      return Request::broadcast(output(record.output.count), record.peer);
    case OpType::scatter:
      return Request::scatter(
          InputBlocks::equal(input(is_root ? record.output.count * members : 0)),
          output(record.output.count), record.peer);
    case OpType::gather: {
      const ConstBufferView in = input(record.input.count);
      const std::size_t all = is_root ? record.input.count * members : 0;
      return Request::gather(in, OutputBlocks::equal(output(all)), record.peer);
    }
    case OpType::all_gather: {
      const ConstBufferView in = input(record.input.count);
      return Request::all_gather(in, output_blocks(record.output));
    }
    case OpType::all_to_all: {
      const InputBlocks in = input_blocks(record.input);
      return Request::all_to_all(in, output_blocks(record.output));
    }
    default:
      return Request::barrier();
  }
}

InputBlocks ShadowCall::input_blocks(const CallSide& side) {
  const ConstBufferView all = input(side.count);
  if (side.layout == Layout::equal) return InputBlocks::equal(all);
  InputBlocks::equal(all).for_each(
      shape_.size, [this](int, ConstBufferView block) { given_list_.push_back(block); });
  return InputBlocks::list(given_list_);
}

OutputBlocks ShadowCall::output_blocks(const CallSide& side) {
  const BufferView all = output(side.count);
  if (side.layout == Layout::equal) return OutputBlocks::equal(all);
  OutputBlocks::equal(all).for_each(
      shape_.size, [this](int, BufferView block) { taken_list_.push_back(block); });
  return OutputBlocks::list(taken_list_);
}

ConstBufferView ShadowCall::input(std::size_t count) {
  given_ = as_much_of(memory_.given, count * size_of(dtype_));
  return ConstBufferView(given_.data(), count, dtype_);
}

BufferView ShadowCall::output(std::size_t count) {
  taken_ = as_much_of(memory_.taken, count * size_of(dtype_));
  return BufferView(taken_.data(), count, dtype_);
}

}  // namespace hymn
