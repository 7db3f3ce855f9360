// The operations of a group, and what each one is.
#pragma once

#include "hymn/standard.hpp"  // first

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "hymn/described.hpp"
#include "hymn/export.hpp"

namespace hymn {

enum class OpType : std::uint8_t {
  all_reduce,
  broadcast,
  reduce,
  gather,
  scatter,
  all_gather,
  reduce_scatter,
  scan,
  exscan,
  all_to_all,
  barrier,
  send,
  recv,
  batch,  ///< several sends and receives as one
  probe,  ///< waits for a message, and leaves it to be received
};

/// What an operation has on one of its sides.
enum class SideForm : std::uint8_t {
  none,
  whole,   ///< one buffer that concerns all ranks alike
  blocks,  ///< a block for each rank
};

/// What the root of a collective is alone in doing.
enum class RootRole : std::uint8_t {
  none,   ///< there is no root
  gives,  ///< it alone has an input
  takes,  ///< it alone has an output
};

/// What an operation is.
struct OpTraits {
  std::string_view name{};
  bool collective = false;  ///< every member of the group takes part
  RootRole root = RootRole::none;
  SideForm input = SideForm::none;
  SideForm output = SideForm::none;
  bool reduces = false;     ///< combines values
  bool prefix = false;      ///< of the ranks up to each one, and not of all
  bool one_buffer = false;  ///< of each rank, the root's input and the others' output
};

/// The rows of the table behind traits_of.
constexpr OpTraits define(OpType type) {
  constexpr auto whole = SideForm::whole;
  constexpr auto blocks = SideForm::blocks;
  switch (type) {
    case OpType::all_reduce:
      return {.name = "all_reduce",
              .collective = true,
              .input = whole,
              .output = whole,
              .reduces = true};
    case OpType::broadcast:
      return {.name = "broadcast",
              .collective = true,
              .root = RootRole::gives,
              .input = whole,
              .output = whole,
              .one_buffer = true};
    case OpType::reduce:
      return {.name = "reduce",
              .collective = true,
              .root = RootRole::takes,
              .input = whole,
              .output = whole,
              .reduces = true};
    case OpType::gather:
      return {.name = "gather",
              .collective = true,
              .root = RootRole::takes,
              .input = whole,
              .output = blocks};
    case OpType::scatter:
      return {.name = "scatter",
              .collective = true,
              .root = RootRole::gives,
              .input = blocks,
              .output = whole};
    case OpType::all_gather:
      return {.name = "all_gather", .collective = true, .input = whole, .output = blocks};
    case OpType::reduce_scatter:
      return {.name = "reduce_scatter",
              .collective = true,
              .input = blocks,
              .output = whole,
              .reduces = true};
    case OpType::scan:
      return {.name = "scan",
              .collective = true,
              .input = whole,
              .output = whole,
              .reduces = true,
              .prefix = true};
    case OpType::exscan:
      return {.name = "exscan",
              .collective = true,
              .input = whole,
              .output = whole,
              .reduces = true,
              .prefix = true};
    case OpType::all_to_all:
      return {.name = "all_to_all", .collective = true, .input = blocks, .output = blocks};
    case OpType::barrier:
      return {.name = "barrier", .collective = true};
    case OpType::send:
      return {.name = "send", .input = whole};
    case OpType::recv:
      return {.name = "recv", .output = whole};
    case OpType::batch:
      return {.name = "batch"};
    case OpType::probe:
      return {.name = "probe"};
  }
  return {};
}

inline constexpr std::size_t op_type_count = detail::described_count<OpType>;
inline constexpr auto all_op_types = detail::all_described<OpType>;

/// Also of a value that no enumerator has: then it is called "unknown", and is nothing else.
constexpr const OpTraits& traits_of(OpType type) noexcept { return detail::row_of(type); }

HYMN_API std::string_view to_string(OpType type) noexcept;

/// True for the operations that every member of the group takes part in.
constexpr bool is_collective(OpType type) { return traits_of(type).collective; }

/// True for a single send or receive; not for a batch of them.
constexpr bool is_message(OpType type) { return type == OpType::send || type == OpType::recv; }

/// True for those that end when a message has come, perhaps from any source.
constexpr bool awaits_message(OpType type) { return type == OpType::recv || type == OpType::probe; }

/// True for what one other rank takes part in, and a tag tells apart.
constexpr bool has_tag(OpType type) { return is_message(type) || type == OpType::probe; }

/// True for the collectives that combine values.
constexpr bool reduces(OpType type) { return traits_of(type).reduces; }

/// True for those whose result on each rank is of the ranks up to it.
constexpr bool is_prefix(OpType type) { return traits_of(type).prefix; }

/// True for the collectives in which one rank is alone in giving, or in taking.
constexpr bool has_root(OpType type) { return traits_of(type).root != RootRole::none; }

constexpr bool has_input_blocks(OpType type) { return traits_of(type).input == SideForm::blocks; }
constexpr bool has_output_blocks(OpType type) { return traits_of(type).output == SideForm::blocks; }
constexpr bool has_blocks(OpType type) { return has_input_blocks(type) || has_output_blocks(type); }

/// Whether a rank's buffers on that side count: of some rooted collectives only the root's do.
constexpr bool uses_inputs(OpType type, bool is_root) {
  const OpTraits& traits = traits_of(type);
  return traits.root != RootRole::gives || traits.one_buffer || is_root;
}
constexpr bool uses_outputs(OpType type, bool is_root) {
  return traits_of(type).root != RootRole::takes || is_root;
}

/// Of a collective's buffers, those that every rank has: the outputs, or else the inputs.
constexpr bool all_have_outputs(OpType type) { return traits_of(type).root == RootRole::gives; }

}  // namespace hymn
