// A Fourier transform in three dimensions, and back. Ranks are a grid of rows and columns, and each
// has whole lines of one dimension at a time: first along x, then, after all_to_alls in its row,
// along y, and after some in its column along z. Planes go one by one, with blocks of 4, 16 and
// 64 KB at the sizes 32, 64 and 128 where a row, or a column, has two ranks.
//
//   scripts/mpirun -n 4 build/bin/bench_fft3d --sizes 32,64,128
//
// A size is the length of each dimension, a power of two, and so is the number of ranks.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "bench/programs/beside.hpp"
#include "bench/programs/fft.hpp"
#include "bench/programs/inputs.hpp"

namespace hymn::bench {
namespace {

constexpr double same_values = 1e-12;

/// Where the planes of an array are, and the lines of each: counted in elements.
struct Layout {
  std::size_t plane = 0;
  std::size_t line = 0;
};

/// Turns planes round, which the ranks of a group have parts of. Each has a few whole lines of one
/// direction, and gets as many of the other.
template <class Comm>
class Turn {
 public:
  Turn(Comm comm, std::size_t length, std::size_t planes)
      : comm_(comm),
        ranks_(static_cast<std::size_t>(comm.size())),
        lines_(length / ranks_),
        planes_(planes),
        out_(lines_ * length),
        in_(lines_ * length) {}

  void planes(const Complex* from, Layout of_from, Complex* to, Layout of_to) {
    for (std::size_t plane = 0; plane < planes_; ++plane) {
      pack(from + plane * of_from.plane, of_from.line);
      comm_.all_to_all(std::span<const Complex>(out_), std::span(in_));
      unpack(to + plane * of_to.plane, of_to.line);
    }
  }

 private:
  /// A block for each rank, turned round already.
  void pack(const Complex* from, std::size_t pitch) {
    Complex* to = out_.data();
    for (std::size_t i = 0; i < lines_ * ranks_; ++i)
      for (std::size_t line = 0; line < lines_; ++line) *to++ = from[line * pitch + i];
  }
  void unpack(Complex* to, std::size_t pitch) {
    const Complex* from = in_.data();
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      for (std::size_t line = 0; line < lines_; ++line, from += lines_)
        std::copy_n(from, lines_, to + line * pitch + rank * lines_);
  }

  Comm comm_;
  std::size_t ranks_;
  std::size_t lines_;  ///< that a rank has of a plane
  std::size_t planes_;
  std::vector<Complex> out_;
  std::vector<Complex> in_;
};

/// How many rows, and how many ranks in each.
struct Grid {
  explicit Grid(int size) {
    if (!std::has_single_bit(static_cast<unsigned>(size)))
      throw std::runtime_error("fft3d: the number of ranks is to be a power of two");
    while (4 * rows * rows <= size) rows *= 2;
    columns = size / rows;
  }
  int rows = 1;
  int columns = 1;
};

template <class Comm>
class Fft3d {
 public:
  static constexpr std::string_view name = "fft3d";
  static std::vector<std::size_t> sizes() { return {32, 64, 128}; }

  Fft3d(Comm comm, std::size_t length) : Fft3d(comm, length, Grid(comm.size())) {}

  void set_up(std::uint64_t seed) {
    Numbers numbers(seed, static_cast<std::uint64_t>(comm_.rank()));
    for (Complex& value : given_) value = {numbers.next_real(), numbers.next_real()};
  }

  void run() {
    along_x_ = given_;
    each_line(along_x_, [&](Complex* line) { fft_.forward(line); });
    row_.planes(along_x_.data(), {middle_ * length_, length_}, along_y_.data(),
                {middle_ * length_, length_});
    each_line(along_y_, [&](Complex* line) { fft_.forward(line); });
    column_.planes(along_y_.data(), {length_, middle_ * length_}, spectrum_.data(),
                   {outer_ * length_, length_});
    each_line(spectrum_, [&](Complex* line) { fft_.forward(line); });

    along_z_ = spectrum_;
    each_line(along_z_, [&](Complex* line) { fft_.back(line); });
    column_.planes(along_z_.data(), {outer_ * length_, length_}, along_y_.data(),
                   {length_, middle_ * length_});
    each_line(along_y_, [&](Complex* line) { fft_.back(line); });
    row_.planes(along_y_.data(), {middle_ * length_, length_}, along_x_.data(),
                {middle_ * length_, length_});
    each_line(along_x_, [&](Complex* line) { fft_.back(line); });
  }

  /// Back is what was given; and the first of all coefficients is the sum of that.
  void check() {
    double apart = 0;
    Complex total;
    for (std::size_t i = 0; i < given_.size(); ++i) {
      apart = std::max(apart, std::abs(along_x_[i] - given_[i]));
      total += given_[i];
    }
    total = Complex(comm_.sum(total.real()), comm_.sum(total.imag()));
    const double off = comm_.rank() == 0 ? std::abs(spectrum_.front() - total) : 0;
    // Rounding: of numbers up to 1, and of a sum of so many of them.
    if (!(apart <= same_values) || !(off <= same_values * std::pow(length_, 1.5)))
      throw std::runtime_error(
          fmt::format("fft3d with {}: back differs by {}, the sum by {}", Comm::name, apart, off));
  }

  /// What each computes does not depend on who sends it.
  const std::vector<Complex>& result() const { return spectrum_; }
  static bool same(const std::vector<Complex>& a, const std::vector<Complex>& b) { return a == b; }

 private:
  Fft3d(Comm comm, std::size_t length, Grid grid)
      : comm_(comm),
        length_(length),
        middle_(length / static_cast<std::size_t>(grid.columns)),
        outer_(length / static_cast<std::size_t>(grid.rows)),
        fft_(length),
        row_(comm_.split(comm.rank() / grid.columns, comm.rank()), length, outer_),
        column_(comm_.split(comm.rank() % grid.columns, comm.rank()), length, middle_),
        given_(middle_ * outer_ * length),
        along_x_(given_.size()),
        along_y_(given_.size()),
        spectrum_(given_.size()),
        along_z_(given_.size()) {}

  template <class Act>
  void each_line(std::vector<Complex>& values, Act&& act) {
    for (std::size_t at = 0; at < values.size(); at += length_) act(&values[at]);
  }

  Comm comm_;
  std::size_t length_;
  std::size_t middle_;  ///< lines of x in a plane of this rank's, and of y
  std::size_t outer_;   ///< planes that it has of these; lines of z in a plane
  LineFft fft_;
  Turn<Comm> row_;
  Turn<Comm> column_;
  std::vector<Complex> given_;     ///< [z][y][x], z by rows of ranks, y by columns
  std::vector<Complex> along_x_;   ///< as given_
  std::vector<Complex> along_y_;   ///< [z][x][y], z by rows, x by columns
  std::vector<Complex> spectrum_;  ///< [x][y][z], x by columns, y by rows
  std::vector<Complex> along_z_;   ///< as spectrum_
};

}  // namespace
}  // namespace hymn::bench

int main(int argc, char** argv) { return hymn::bench::run_beside<hymn::bench::Fft3d>(argc, argv); }
