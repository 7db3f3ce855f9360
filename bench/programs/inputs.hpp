// Inputs of the programs here: numbers that a seed and a place decide, on any rank.
#pragma once

#include <cstdint>

namespace hymn::bench {

/// Steele, Lea and Flood's SplitMix64.
class Numbers {
 public:
  Numbers(std::uint64_t seed, std::uint64_t place)
      : state_(seed * 0x9e3779b97f4a7c15U + place * 0xd1342543de82ef95U) {}
  std::uint64_t next() {
    std::uint64_t mixed = state_ += 0x9e3779b97f4a7c15U;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
    return mixed ^ (mixed >> 31);
  }
  /// From -1 to 1.
  double next_real() { return static_cast<double>(next() >> 11) / 0x1p52 - 1; }

 private:
  std::uint64_t state_;
};

}  // namespace hymn::bench
