// Conjugate gradients on a grid in two dimensions, both periodic, which is cut into one square a
// rank: (4 + shift) x - (x's four neighbours) = b. An iteration exchanges halos and sums two
// numbers up.
//
//   scripts/mpirun -n 2 --bind-to core build/bin/bench_cg --sizes 16,64,256
//
// A size is the side of a rank's square. All runs make the same number of iterations, so that
// orders of summation which differ do not change the work.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "bench/programs/beside.hpp"
#include "bench/programs/inputs.hpp"

namespace hymn::bench {
namespace {

constexpr double shift = 0.5;  // the condition number is 1 + 8 / shift
constexpr int iterations = 60;
constexpr double small_residual = 1e-10;  // of b's length
constexpr double same_solution = 1e-12;   // of the largest number in it

/// A rank's square, with the halo around it.
class Square {
 public:
  explicit Square(std::size_t side)
      : side_(side), values_((side + 2) * (side + 2)), columns_(4 * side) {}

  std::size_t side() const { return side_; }
  /// That of an inner row, from 1 to side(): its first inner value, after one of the halo.
  double* row(std::size_t y) { return &values_[y * pitch() + 1]; }
  const double* row(std::size_t y) const { return &values_[y * pitch() + 1]; }
  std::size_t pitch() const { return side_ + 2; }

  /// Of the rows, which lie in one piece each.
  Faces vertical() {
    return {{row(1), side_}, {row(0), side_}, {row(side_), side_}, {row(side_ + 1), side_}};
  }
  /// Of the columns, packed. unpack() puts those that have come into the halo.
  Faces horizontal() {
    double* const packed = columns_.data();
    for (std::size_t y = 0; y < side_; ++y) {
      packed[y] = row(y + 1)[0];
      packed[side_ + y] = row(y + 1)[side_ - 1];
    }
    return {{packed, side_},
            {packed + 2 * side_, side_},
            {packed + side_, side_},
            {packed + 3 * side_, side_}};
  }
  void unpack() {
    for (std::size_t y = 0; y < side_; ++y) {
      row(y + 1)[-1] = columns_[2 * side_ + y];
      row(y + 1)[side_] = columns_[3 * side_ + y];
    }
  }

 private:
  std::size_t side_;
  std::vector<double> values_;
  std::vector<double> columns_;  ///< to previous, to next, from previous, from next
};

/// Four sums at once: the compiler may not make them of one.
template <class Term>
double sum_of(std::size_t count, Term&& term) {
  std::array<double, 4> parts{};
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4)
    for (std::size_t j = 0; j < 4; ++j) parts[j] += term(i + j);
  for (; i < count; ++i) parts[0] += term(i);
  return (parts[0] + parts[1]) + (parts[2] + parts[3]);
}

/// Ranks in a grid that is as square as their number allows, and a rank's neighbours there.
struct Place {
  Place(int rank, int size) {
    int rows = 1;
    for (int i = 1; i * i <= size; ++i)
      if (size % i == 0) rows = i;
    const int columns = size / rows;
    const int y = rank / columns;
    const int x = rank % columns;
    left = y * columns + (x + columns - 1) % columns;
    right = y * columns + (x + 1) % columns;
    above = (y + rows - 1) % rows * columns + x;
    below = (y + 1) % rows * columns + x;
  }
  int left, right, above, below;
};

template <class Comm>
class Cg {
 public:
  static constexpr std::string_view name = "cg";
  static std::vector<std::size_t> sizes() { return {16, 64, 256}; }

  Cg(Comm comm, std::size_t side)
      : comm_(comm),
        place_(comm.rank(), comm.size()),
        side_(side),
        p_(side),
        b_(side * side),
        x_(side * side),
        r_(side * side),
        q_(side * side) {}

  void set_up(std::uint64_t seed) {
    Numbers numbers(seed, static_cast<std::uint64_t>(comm_.rank()));
    for (double& value : b_) value = numbers.next_real();
  }

  void run() {
    std::fill(x_.begin(), x_.end(), 0.0);
    r_ = b_;
    for (std::size_t y = 0; y < side_; ++y) std::copy_n(&r_[y * side_], side_, p_.row(y + 1));
    double rr = comm_.sum(squared(r_));
    for (int i = 0; i < iterations; ++i) {
      exchange_halo();
      const double alpha = rr / comm_.sum(apply());
      const double next = comm_.sum(step(alpha));
      turn(next / rr);
      rr = next;
    }
  }

  /// The residual is computed from the solution.
  void check() {
    for (std::size_t y = 0; y < side_; ++y) std::copy_n(&x_[y * side_], side_, p_.row(y + 1));
    exchange_halo();
    apply();
    for (std::size_t i = 0; i < r_.size(); ++i) r_[i] = b_[i] - q_[i];
    const double residual = std::sqrt(comm_.sum(squared(r_)) / comm_.sum(squared(b_)));
    if (!(residual <= small_residual))
      throw std::runtime_error(
          fmt::format("cg with {}: the residual is {} of b", Comm::name, residual));
  }

  const std::vector<double>& result() const { return x_; }
  static bool same(const std::vector<double>& a, const std::vector<double>& b) {
    double most = 0;
    double apart = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
      most = std::max(most, std::abs(a[i]));
      apart = std::max(apart, std::abs(a[i] - b[i]));
    }
    return apart <= same_solution * most;
  }

 private:
  static double squared(const std::vector<double>& v) {
    return sum_of(v.size(), [&](std::size_t i) { return v[i] * v[i]; });
  }

  void exchange_halo() {
    exchange(place_.above, place_.below, p_.vertical());
    exchange(place_.left, place_.right, p_.horizontal());
    p_.unpack();
  }
  /// A dimension of one rank is its own neighbour there.
  void exchange(int previous, int next, const Faces& faces) {
    if (next != comm_.rank()) return comm_.exchange(previous, next, faces);
    std::copy(faces.to_next.begin(), faces.to_next.end(), faces.from_previous.begin());
    std::copy(faces.to_previous.begin(), faces.to_previous.end(), faces.from_next.begin());
  }

  /// q = A p; this rank's part of (p, q).
  double apply() {
    double product = 0;
    const std::size_t pitch = p_.pitch();
    for (std::size_t y = 0; y < side_; ++y) {
      const double* const p = p_.row(y + 1);
      double* const q = &q_[y * side_];
      product += sum_of(side_, [=](std::size_t x) {
        const double* const at = p + x;
        q[x] = (4 + shift) * at[0] - ((at[-1] + at[1]) + (*(at - pitch) + at[pitch]));
        return at[0] * q[x];
      });
    }
    return product;
  }
  /// x += alpha p, r -= alpha q; this rank's part of (r, r).
  double step(double alpha) {
    double product = 0;
    for (std::size_t y = 0; y < side_; ++y) {
      const double* const p = p_.row(y + 1);
      double* const x = &x_[y * side_];
      double* const r = &r_[y * side_];
      const double* const q = &q_[y * side_];
      product += sum_of(side_, [=](std::size_t i) {
        x[i] += alpha * p[i];
        r[i] -= alpha * q[i];
        return r[i] * r[i];
      });
    }
    return product;
  }
  /// p = r + beta p
  void turn(double beta) {
    for (std::size_t y = 0; y < side_; ++y) {
      double* const p = p_.row(y + 1);
      const double* const r = &r_[y * side_];
      for (std::size_t x = 0; x < side_; ++x) p[x] = r[x] + beta * p[x];
    }
  }

  Comm comm_;
  Place place_;
  std::size_t side_;
  Square p_;
  std::vector<double> b_;
  std::vector<double> x_;
  std::vector<double> r_;
  std::vector<double> q_;
};

}  // namespace
}  // namespace hymn::bench

int main(int argc, char** argv) { return hymn::bench::run_beside<hymn::bench::Cg>(argc, argv); }
