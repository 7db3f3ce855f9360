// What the reductions over shared memory have in common.
#pragma once

#include <array>
#include <cstdint>

#include "collectives/algorithm.hpp"
#include "collectives/reduce/reducer.hpp"

namespace hymn {

/// Members that an algorithm which looks at all of them at once can have.
inline constexpr int most_at_once = 64;

/// For each member where its input of a slice lies, and its own factor of premul_sum.
struct FoldInputs {
  std::array<const void*, most_at_once> data;
  std::array<double, most_at_once> factors;
};

/// Why a reduction over shared memory cannot carry the request; empty: it can.
Verdict can_reduce_in_memory(const Request& request);
/// The same of one that folds all members' inputs at once.
Verdict can_fold_in_memory(const Request& request, int members);

/// The all_reduces in which every element is folded from all members' inputs at once, in rank
/// order.
class AllReduceInMemory : public Algorithm {
 public:
  std::string_view path() const override { return "shm"; }
  bool serves(OpType type) const override { return type == OpType::all_reduce; }
  Reproducibility promises(const Request&) const override { return Reproducibility::size; }
};

/// Mixes one value more into what tells calls that do not fit together from each other. With the
/// same values before, two different ones never come to the same.
constexpr std::uint64_t mix_in(std::uint64_t mixed, std::uint64_t value) {
  return (mixed ^ value) * 0x9e3779b97f4a7c15u;
}

/// What a call asks for, the same on members that ask for the same: calls that do not fit together
/// are found by it instead of computed. `peer`: the root's group rank, or -1.
constexpr std::uint64_t call_label(const Request& request, int peer = -1) {
  const std::uint64_t rest = static_cast<std::uint64_t>(static_cast<std::uint32_t>(peer)) << 12 |
                             static_cast<std::uint64_t>(request.type) << 8 |
                             static_cast<std::uint64_t>(request.inputs.dtype()) << 4 |
                             static_cast<std::uint64_t>(request.op.kind());
  return mix_in(mix_in(0, request.inputs.flat().count), rest);
}
static_assert(op_type_count <= 16 && data_type_count <= 16 && reduce_kind_count <= 16);

/// As much of that as a flag has room for.
constexpr unsigned signature_of(std::uint64_t mixed) { return static_cast<unsigned>(mixed >> 54); }
constexpr unsigned call_signature(const Request& request) {
  return signature_of(call_label(request));
}

/// A flag that tells of use number `use`: what the call asked for, and how far the data lies from a
/// line (0 … 63).
class SlotFlag {
 public:
  static constexpr std::uint64_t make(std::uint64_t use, unsigned signature, unsigned offset) {
    return use << 16 | static_cast<std::uint64_t>(signature) << 6 | offset;
  }
  static constexpr std::uint64_t use(std::uint64_t flag) { return flag >> 16; }
  static constexpr unsigned signature(std::uint64_t flag) {
    return static_cast<unsigned>(flag >> 6) & 0x3ff;
  }
  static constexpr unsigned offset(std::uint64_t flag) {
    return static_cast<unsigned>(flag) & 0x3f;
  }
};

/// UsageError: member `member` made another call than this one.
[[noreturn]] void throw_other_call(int member, const Request& request);

}  // namespace hymn
