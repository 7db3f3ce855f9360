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

/// Whether every path that has no list of its own carries it out.
constexpr bool is_on_all_paths(OpType type) {
  switch (type) {
    case OpType::all_reduce:
    case OpType::broadcast:
    case OpType::reduce:
    case OpType::gather:
    case OpType::scatter:
    case OpType::all_gather:
    case OpType::reduce_scatter:
    case OpType::all_to_all:
    case OpType::barrier:
      return true;
    case OpType::send:
    case OpType::recv:
    case OpType::batch:
      break;
  }
  return false;
}

/// All for which `belongs` is true.
template <class Belongs>
constexpr OpTypes op_types_where(Belongs belongs) {
  OpTypes types;
  for (const OpType type : all_op_types)
    if (belongs(type)) types = types | OpTypes{type};
  return types;
}

inline constexpr OpTypes usual_collectives = op_types_where(is_on_all_paths);

}  // namespace hymn
