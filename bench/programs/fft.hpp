// Fourier transforms of one line, in Stockham's order: what each rank computes of one in three
// dimensions.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <numbers>
#include <stdexcept>
#include <vector>

namespace hymn::bench {

using Complex = std::complex<double>;

/// std::complex multiplies as if there were infinities.
inline Complex times(Complex a, Complex b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

/// Of lines of one length, a power of two.
class LineFft {
 public:
  explicit LineFft(std::size_t length) : spare_(length), forward_(length / 2), back_(length / 2) {
    if (!std::has_single_bit(length)) throw std::invalid_argument("no power of two");
    for (std::size_t i = 0; i < length / 2; ++i) {
      const double angle =
          2 * std::numbers::pi * static_cast<double>(i) / static_cast<double>(length);
      forward_[i] = std::polar(1.0, -angle);
      back_[i] = std::conj(forward_[i]);
    }
  }

  /// In place.
  void forward(Complex* line) { transform(line, forward_); }
  /// Divided by the length, so that it undoes forward().
  void back(Complex* line) {
    transform(line, back_);
    const double factor = 1 / static_cast<double>(spare_.size());
    for (std::size_t i = 0; i < spare_.size(); ++i) line[i] *= factor;
  }

 private:
  void transform(Complex* line, const std::vector<Complex>& roots) {
    Complex* from = line;
    Complex* to = spare_.data();
    std::size_t stride = 1;
    for (std::size_t half = spare_.size() / 2; half > 0; half /= 2, stride *= 2) {
      for (std::size_t p = 0; p < half; ++p)
        butterflies(from + stride * p, from + stride * (p + half), to + stride * 2 * p, stride,
                    roots[p * stride]);
      std::swap(from, to);
    }
    if (from != line) std::copy_n(from, spare_.size(), line);
  }
  static void butterflies(const Complex* a, const Complex* b, Complex* out, std::size_t stride,
                          Complex root) {
    for (std::size_t q = 0; q < stride; ++q) {
      const Complex sum = a[q] + b[q];
      out[stride + q] = times(a[q] - b[q], root);
      out[q] = sum;
    }
  }

  std::vector<Complex> spare_;
  std::vector<Complex> forward_;
  std::vector<Complex> back_;
};

}  // namespace hymn::bench
