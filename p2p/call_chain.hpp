// All calls of one member, one after the other, as a number that travels beside their data.
#pragma once

#include <cstdint>

namespace hymn {

/// Odd and without a pattern: a bit of what is multiplied by it reaches all bits above.
constexpr std::uint64_t label_factor = 0x9e3779b97f4a7c15u;

/// Mixes one value more into a label. With the same values before, two different ones never come to
/// the same.
constexpr std::uint64_t mix_in(std::uint64_t mixed, std::uint64_t value) {
  return (mixed ^ value) * label_factor;
}

/// The labels of one call after the other: what two members have called is the same up to where
/// they are, or their labels differ from the first call on that was not.
class CallChain {
 public:
  /// The label of the next call: of it and all before it.
  std::uint64_t next(std::uint64_t call) { return last_ = mix_in(last_, call); }

 private:
  std::uint64_t last_ = 1;
};

/// The upper bits of a label, of which there may be room for some only.
constexpr std::uint64_t upper_bits(std::uint64_t label, unsigned bits) {
  return label >> (64 - bits);
}

}  // namespace hymn
