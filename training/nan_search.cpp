#include "training/nan_search.hpp"

#include <cstdint>
#include <cstring>

namespace hymn::training::detail {
namespace {

/// Bits without the sign that are beyond infinity.
template <class Bits>
std::optional<std::size_t> search(const BufferView& view, Bits infinity) {
  const auto* const bytes = static_cast<const std::byte*>(view.data);
  const std::size_t each = view.element_bytes();
  for (std::size_t at = 0; at < view.bytes(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, bytes + at, sizeof(Bits));
    constexpr auto sign = static_cast<Bits>(Bits{1} << (8 * sizeof(Bits) - 1));
    if (static_cast<Bits>(bits & static_cast<Bits>(~sign)) > infinity) return at / each;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::size_t> first_nan(const BufferView& view) {
  if (view.dtype == DataType::float16) return search<std::uint16_t>(view, 0x7c00);
  if (view.dtype == DataType::bfloat16) return search<std::uint16_t>(view, 0x7f80);
  if (view.dtype == DataType::float32 || view.dtype == DataType::complex64)
    return search<std::uint32_t>(view, 0x7f800000);
  return search<std::uint64_t>(view, 0x7ff0000000000000);
}

}  // namespace hymn::training::detail
