// Data by 16 bytes, the most that a thread of a GPU moves at once.
#pragma once

#include <bit>

#include "collectives/cuda/kernel_thread.hpp"

namespace hymn::cuda {

/// It lies over elements of any type, as bytes do; compilers of the host are told so.
struct [[gnu::may_alias]] alignas(16) Pack {
  std::uint32_t words[4];
};
inline constexpr std::uint64_t pack_bytes = sizeof(Pack);

HYMN_KERNEL_BODY constexpr std::uint64_t packs_in(std::uint64_t bytes) {
  return (bytes + pack_bytes - 1) / pack_bytes;
}

HYMN_KERNEL_BODY bool is_aligned(const void* address, std::size_t to) {
  return reinterpret_cast<std::uintptr_t>(address) % to == 0;
}

/// Copies `bytes` by units of a type whose alignment both have.
template <class Unit>
HYMN_KERNEL_BODY void copy_units(void* to, const void* from, std::uint64_t bytes) {
  for (std::uint64_t i = 0; i < bytes / sizeof(Unit); ++i)
    static_cast<Unit*>(to)[i] = static_cast<const Unit*>(from)[i];
}

/// Up to 16 bytes, of any alignment. A call of its own: it is rare, and would take registers from
/// what is not.
HYMN_KERNEL_CALL void copy_some(void* to, const void* from, std::uint64_t bytes) {
  const bool are_words = is_aligned(to, 4) && is_aligned(from, 4) && bytes % 4 == 0;
  if (bytes == pack_bytes && is_aligned(to, 16) && is_aligned(from, 16))
    *static_cast<Pack*>(to) = *static_cast<const Pack*>(from);
  else if (are_words)
    copy_units<std::uint32_t>(to, from, bytes);
  else if (is_aligned(to, 2) && is_aligned(from, 2) && bytes % 2 == 0)
    copy_units<std::uint16_t>(to, from, bytes);
  else
    copy_units<unsigned char>(to, from, bytes);
}

/// The same of a pack that is in registers, which have no address.
HYMN_KERNEL_BODY void put_pack(void* to, Pack pack, std::uint64_t bytes) {
  if (bytes == pack_bytes && is_aligned(to, 16)) {
    *static_cast<Pack*>(to) = pack;
  } else {
    const Pack in_memory = pack;
    copy_some(to, &in_memory, bytes);
  }
}

/// Of `bytes` in all, those of one pack; the last may be shorter.
HYMN_KERNEL_BODY std::uint64_t bytes_of_pack(std::uint64_t pack, std::uint64_t bytes) {
  const std::uint64_t left = bytes - pack * pack_bytes;
  return left < pack_bytes ? left : pack_bytes;
}

/// How many packs a thread has under way at the same time where nothing keeps it from it. One alone
/// would wait for the memory most of the time: what a GPU reads is on its way for a microsecond.
inline constexpr unsigned packs_at_once = 8;

/// Zeros where it is not to be loaded, for what has no value keeps registers busy.
HYMN_KERNEL_BODY Pack load_pack_if(bool is_there, const std::byte* from) {
  return is_there ? *reinterpret_cast<const Pack*>(from) : Pack{};
}

/// How many of packs i, i + stride, ... there are before `last`: at most `most`.
template <unsigned most>
HYMN_KERNEL_BODY unsigned packs_before(std::uint64_t i, std::uint64_t stride, std::uint64_t last) {
  unsigned count = 0;
  HYMN_UNROLLED
  for (unsigned k = 0; k < most; ++k) count += i + k * stride < last ? 1 : 0;
  return count;
}

/// copy_packs() of those that are whole, between multiples of 16 bytes.
HYMN_KERNEL_BODY void copy_whole_packs(const KernelThread& at, std::byte* to, const std::byte* from,
                                       std::uint64_t first, std::uint64_t last) {
  const std::uint64_t stride = at.stride();
  HYMN_ROLLED
  for (std::uint64_t i = first + at.index(); i < last; i += packs_at_once * stride) {
    const unsigned count = packs_before<packs_at_once>(i, stride, last);
    Pack packs[packs_at_once];
    HYMN_UNROLLED
    for (unsigned k = 0; k < packs_at_once; ++k)
      packs[k] = load_pack_if(k < count, from + (i + k * stride) * pack_bytes);
    HYMN_UNROLLED
    for (unsigned k = 0; k < packs_at_once; ++k)
      if (k < count) *reinterpret_cast<Pack*>(to + (i + k * stride) * pack_bytes) = packs[k];
  }
}

/// The thread's share of copying packs [first, last) of `bytes` in all: every stride()-th from
/// first + index() on.
HYMN_KERNEL_BODY void copy_packs(const KernelThread& at, std::byte* to, const std::byte* from,
                                 std::uint64_t first, std::uint64_t last, std::uint64_t bytes) {
  std::uint64_t i = first + at.index();
  if (is_aligned(to, pack_bytes) && is_aligned(from, pack_bytes)) {
    const std::uint64_t whole = bytes / pack_bytes < last ? bytes / pack_bytes : last;
    copy_whole_packs(at, to, from, first, whole);
    if (whole == last) return;
    while (i < whole) i += at.stride();  // to the last one, if that is this thread's
  }
  for (; i < last; i += at.stride())
    copy_some(to + i * pack_bytes, from + i * pack_bytes, bytes_of_pack(i, bytes));
}

}  // namespace hymn::cuda
