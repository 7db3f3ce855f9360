// Kernels of complex numbers: pairs of float32 or float64, treated part by part but for the
// product.
//
// Compiled with -ffp-contract=off: a fused multiply-add would make the product depend on which
// operand is which, and on the instruction set.
#include "base/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "collectives/reduce/complex_kernels.cpp"
#include <algorithm>
#include <array>

#include "collectives/reduce/kernel_table.hpp"
#include "hwy/foreach_target.h"
// After foreach_target.h, which includes this file again and again.
#include "collectives/reduce/loops-inl.hpp"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hymn::HWY_NAMESPACE {
namespace {

struct Sum {
  template <class Part>
  Part operator()(Part a, Part b) const {
    return a + b;
  }
};

template <class Part>
struct Scale {
  Part factor;
  Part operator()(Part value) const { return value * factor; }
};

template <class Part>
struct Divide {
  Part divisor;
  Part operator()(Part value) const { return value / divisor; }
};

template <class Part>
void combine_sum(void* accumulator, const void* other, std::size_t count) {
  fold<Part, Sum>(accumulator, other, 2 * count);
}

struct RealPart {
  template <class Part>
  Part operator()(Part a, Part b, Part c, Part d) const {
    return a * c - b * d;
  }
};

struct ImaginaryPart {
  template <class Part>
  Part operator()(Part a, Part b, Part c, Part d) const {
    return a * d + b * c;
  }
};

/// out[i] = Function()(a, b, c, d) for the pairs (a, b) of `left` and (c, d) of `right`.
template <class Function, class Part>
void one_part(Part* HWY_RESTRICT out, const void* left, const void* right, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    out[i] = Function()(get<Part>(left, 2 * i), get<Part>(left, 2 * i + 1), get<Part>(right, 2 * i),
                        get<Part>(right, 2 * i + 1));
}

/// The plain formula. Exchanging the operands exchanges factors and summands, which changes no bit.
///
/// One loop for each part, because g++ 12 makes a vfmaddsub, which fuses, of a loop that computes
/// both, in spite of -ffp-contract=off.
template <class Part>
void combine_product(void* accumulator, const void* other, std::size_t count) {
  constexpr std::size_t chunk = 256;
  std::array<Part, chunk> real;
  std::array<Part, chunk> imaginary;
  for (std::size_t first = 0; first < count; first += chunk) {
    const std::size_t length = std::min(chunk, count - first);
    const std::size_t offset = first * 2 * sizeof(Part);
    std::byte* const left = static_cast<std::byte*>(accumulator) + offset;
    const std::byte* const right = static_cast<const std::byte*>(other) + offset;
    one_part<RealPart>(real.data(), left, right, length);
    one_part<ImaginaryPart>(imaginary.data(), left, right, length);
    for (std::size_t i = 0; i < length; ++i) {
      put(left, 2 * i, real[i]);
      put(left, 2 * i + 1, imaginary[i]);
    }
  }
}

template <class Part>
void load_scaled(void* accumulator, const void* input, std::size_t count, double factor) {
  map<Part, Part>(accumulator, input, 2 * count, Scale<Part>{static_cast<Part>(factor)});
}

template <class Part>
void store_average(void* output, const void* accumulator, std::size_t count, int ranks) {
  map<Part, Part>(output, accumulator, 2 * count, Divide<Part>{static_cast<Part>(ranks)});
}

template <class Part>
void add_complex(detail::KernelTable& table, DataType dtype, Accumulator accumulator) {
  table.combine(accumulator, ReduceKind::sum) = combine_sum<Part>;
  table.combine(accumulator, ReduceKind::product) = combine_product<Part>;
  table.conversion(dtype).load_scaled = load_scaled<Part>;
  table.conversion(dtype).store_average = store_average<Part>;
}

void add_complexes(detail::KernelTable& table) {
  add_complex<float>(table, DataType::complex64, Accumulator::complex64);
  add_complex<double>(table, DataType::complex128, Accumulator::complex128);
}

}  // namespace
}  // namespace hymn::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hymn {

HWY_EXPORT(add_complexes);

void detail::add_complex_kernels(KernelTable& table) { HWY_DYNAMIC_DISPATCH(add_complexes)(table); }

}  // namespace hymn
#endif
