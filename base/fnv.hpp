// FNV-1a of 64 bits: stable over machines and compilers, which std::hash is not.
#pragma once

#include <cstdint>
#include <string_view>

namespace hymn {

inline constexpr std::uint64_t fnv_offset = 0xcbf29ce484222325;

/// `hash`: of what comes before.
constexpr std::uint64_t fnv_1a(std::string_view bytes, std::uint64_t hash = fnv_offset) {
  for (const char byte : bytes) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return hash;
}

}  // namespace hymn
