// What the reductions over shared memory have in common.
#pragma once

#include <array>
#include <cstdint>

#include "collectives/algorithm.hpp"
#include "collectives/call_label.hpp"
#include "collectives/reduce/reducer.hpp"

namespace hymn {

/// Members that an algorithm which looks at all of them at once can have.
inline constexpr int most_at_once = 64;

/// For each member where its input of a slice lies, and its own factor of premul_sum.
struct FoldInputs {
  std::array<const void*, most_at_once> data;
  std::array<double, most_at_once> factors;
};

Verdict can_look_at_all(int members);

/// Whether no value of that size lies in two slots.
Verdict cuts_whole(std::size_t element_bytes);
/// Whether a reduction over shared memory can carry the request.
Verdict can_reduce_in_memory(const Request& request);
/// The same of one that folds all members' inputs at once.
Verdict can_fold_in_memory(const Request& request, int members);

/// A flag that tells of use number `use`, as far as it has bits for that: what the call asked for,
/// and how far the data lies from a line (0 … 63).
template <unsigned label_bits>
class LabelledFlag {
 public:
  static constexpr std::uint64_t make(std::uint64_t use, std::uint64_t label, unsigned offset) {
    return use << use_shift | upper_bits(label, label_bits) << label_shift | offset;
  }
  static constexpr bool is_of(std::uint64_t flag, std::uint64_t use) {
    return ((flag ^ (use << use_shift)) >> use_shift) == 0;
  }
  /// Of one that is of that use: whether it is of a call with that label.
  static constexpr bool has_label(std::uint64_t flag, std::uint64_t label) {
    return ((flag >> label_shift) & ((1u << label_bits) - 1)) == upper_bits(label, label_bits);
  }
  static constexpr unsigned offset(std::uint64_t flag) {
    return static_cast<unsigned>(flag) & 0x3f;
  }

 private:
  static constexpr unsigned label_shift = 6;
  static constexpr unsigned use_shift = label_shift + label_bits;
};

/// Of slots that each member writes in every use, or in one of a few.
using SlotFlag = LabelledFlag<28>;
/// Of slots that a member may leave alone for very many rounds: what it wrote then must not be
/// taken for what it will write.
using RoundFlag = LabelledFlag<14>;

}  // namespace hymn
