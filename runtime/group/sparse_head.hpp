// What each rank tells all others before a sparse all_reduce sends anything else: so what is wrong
// on one rank, or differs between two, is known to all.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <span>
#include <vector>

#include "runtime/group/sparse_input.hpp"

namespace hymn::detail {

struct SparseHead {
  static constexpr std::uint64_t right_mark = 0x6573726170736d79;

  enum class Outcome : std::uint32_t { sound, usage, unsupported, resource };

  std::uint64_t mark = right_mark;
  Outcome outcome = Outcome::sound;  ///< what kind of error its rank has found
  std::uint32_t is_work = 0;         ///< its rank does not wait for it yet
  std::uint64_t entries = 0;
  std::uint64_t signature = 0;     ///< of what is to be the same on all ranks
  std::array<char, 192> text{};    ///< the same in words; or what is wrong
  std::array<char, 128> remedy{};  ///< of what is wrong
};

SparseHead head_of(const SparseInput& input, const SparseView& tensor, ReduceKind kind);
/// Of a rank whose input is not sound.
SparseHead head_of(const std::exception_ptr& fault);

/// Throws the same on all ranks unless the heads, which are those of `ranks`, go together.
void require_agreement(std::span<const SparseHead> heads, const std::vector<int>& ranks,
                       const ErrorContext& context);

}  // namespace hymn::detail
