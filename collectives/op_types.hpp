// A set of operations.
#pragma once

#include <initializer_list>

#include "hymn/op_type.hpp"

namespace hymn {

class OpTypes {
 public:
  constexpr OpTypes() = default;
  constexpr OpTypes(std::initializer_list<OpType> types) {
    for (const OpType type : types) bits_ |= bit(type);
  }
  constexpr bool contains(OpType type) const { return (bits_ & bit(type)) != 0; }
  friend constexpr OpTypes operator|(OpTypes a, OpTypes b) {
    a.bits_ |= b.bits_;
    return a;
  }
  friend constexpr bool operator==(OpTypes, OpTypes) = default;

 private:
  static constexpr unsigned bit(OpType type) { return 1u << static_cast<unsigned>(type); }

  unsigned bits_ = 0;
};

inline constexpr OpTypes send_and_recv = {OpType::send, OpType::recv};
/// All that is done with messages where they can be looked at before they are received.
inline constexpr OpTypes all_of_messages = send_and_recv | OpTypes{OpType::probe};

/// All for which `belongs` is true.
template <class Belongs>
constexpr OpTypes op_types_where(Belongs belongs) {
  OpTypes types;
  for (const OpType type : all_op_types)
    if (belongs(type)) types = types | OpTypes{type};
  return types;
}

/// What every path in the memory of the host carries out, unless it has a list of its own.
inline constexpr OpTypes usual_collectives = op_types_where(is_collective);

/// The same in the memory of GPUs, where each needs calls of NCCL's or copies of its own.
inline constexpr OpTypes gpu_collectives = {
    OpType::all_reduce, OpType::broadcast,      OpType::reduce,     OpType::gather, OpType::scatter,
    OpType::all_gather, OpType::reduce_scatter, OpType::all_to_all, OpType::barrier};

}  // namespace hymn
