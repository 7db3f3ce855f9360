// Input patterns, and the independent arithmetic behind their expected results.
#include "tools/bench/data.hpp"

#include <algorithm>
#include <bit>
#include <complex>
#include <cstring>

namespace hymn {

namespace {

// Wide enough to hold every input and every result exactly; the imaginary part is 0 but for
// complex.
using Value = std::complex<double>;

bool is_complex(DataType dtype) { return traits_of(dtype).family == DataFamily::complex; }

bool is_floating(DataType dtype) {
  return is_complex(dtype) || traits_of(dtype).family == DataFamily::floating;
}

bool has_sign(DataType dtype) {
  return is_floating(dtype) || dtype == DataType::int8 || dtype == DataType::int32 ||
         dtype == DataType::int64;
}

std::uint64_t scramble(std::uint64_t x) {
  x *= 0x9e3779b97f4a7c15u;
  x ^= x >> 29;
  x *= 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

Value factor_of_product(DataType dtype, std::uint64_t random) {
  // Powers of 2+i never have a zero part, whose sign would depend on the order of multiplication.
  if (is_complex(dtype)) {
    constexpr Value turned[] = {{2, 1}, {-1, 2}, {-2, -1}, {1, -2}};
    return turned[random % 4];
  }
  constexpr double factors[] = {1, 2, -1};
  return factors[random % (has_sign(dtype) ? 3 : 2)];
}

Value input_value(DataType dtype, ReduceKind kind, int ranks, std::size_t index) {
  const std::uint64_t random = scramble(index + 1);
  if (dtype == DataType::boolean) return static_cast<double>(random & 1);
  if (kind == ReduceKind::product) return factor_of_product(dtype, random);
  // Sums over all ranks, times the factor of premul_sum, stay below 2^24: exact in float32.
  const int rank_bits = static_cast<int>(std::bit_width(static_cast<unsigned>(ranks)));
  const int bits = size_of(dtype) < 4 ? 4 : std::clamp(22 - rank_bits, 4, 16);
  const std::uint64_t mask = (std::uint64_t{1} << bits) - 1;
  const double shift = has_sign(dtype) ? static_cast<double>(mask / 2 + 1) : 0.0;
  const double real = static_cast<double>(random & mask) - shift;
  return {real, is_complex(dtype) ? static_cast<double>((random >> 20) & mask) - shift : 0.0};
}

std::int64_t whole(Value value) { return static_cast<std::int64_t>(value.real()); }

Value combine(ReduceKind kind, Value a, Value b) {
  switch (kind) {
    case ReduceKind::product:
      return a * b;
    case ReduceKind::min:
      return std::min(a.real(), b.real());
    case ReduceKind::max:
      return std::max(a.real(), b.real());
    case ReduceKind::band:
    case ReduceKind::land:  // as the next ones of its family, of 0 and 1
      return static_cast<double>(whole(a) & whole(b));
    case ReduceKind::bor:
    case ReduceKind::lor:
      return static_cast<double>(whole(a) | whole(b));
    case ReduceKind::bxor:
    case ReduceKind::lxor:
      return static_cast<double>(whole(a) ^ whole(b));
    case ReduceKind::sum:
    case ReduceKind::avg:
    case ReduceKind::premul_sum:
    case ReduceKind::custom:
    case ReduceKind::opaque:
      break;
  }
  return a + b;
}

ReduceKind logical(ReduceKind kind) {
  if (kind == ReduceKind::sum || kind == ReduceKind::max) return ReduceKind::bor;
  if (kind == ReduceKind::product || kind == ReduceKind::min) return ReduceKind::band;
  return kind;
}

Value divide(DataType dtype, Value sum, int ranks) {
  if (!is_floating(dtype)) return static_cast<double>(whole(sum) / ranks);
  return {sum.real() / ranks, sum.imag() / ranks};
}

template <class T>
void put(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void encode(DataType dtype, Value value, std::byte* at) {
  const double real = value.real();
  switch (dtype) {
    case DataType::int8:
    case DataType::uint8:
    case DataType::boolean:
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
      return put(at, static_cast<std::uint8_t>(whole(value)));
    case DataType::int16:
    case DataType::uint16:
      return put(at, static_cast<std::uint16_t>(whole(value)));
    case DataType::int32:
    case DataType::uint32:
      return put(at, static_cast<std::uint32_t>(whole(value)));
    case DataType::int64:
    case DataType::uint64:
      return put(at, whole(value));
    case DataType::float16:
      return put(at, float16(static_cast<float>(real)));
    case DataType::bfloat16:
      return put(at, bfloat16(static_cast<float>(real)));
    case DataType::float32:
      return put(at, static_cast<float>(real));
    case DataType::float64:
      return put(at, real);
    case DataType::complex64:
      return put(at, std::complex<float>(value));
    case DataType::complex128:
      return put(at, value);
    case DataType::value:
    case DataType::opaque:
      return;
  }
}

}  // namespace

PeriodicData::PeriodicData(DataType dtype)
    : element_bytes_(size_of(dtype)), bytes_(period * size_of(dtype)) {}

void PeriodicData::fill(BufferView out, std::size_t phase) const {
  auto* to = static_cast<std::byte*>(out.data);
  std::size_t from = phase % period;
  for (std::size_t left = out.count; left > 0; from = 0) {
    const std::size_t count = std::min(left, period - from);
    std::memcpy(to, bytes_.data() + from * element_bytes_, count * element_bytes_);
    to += count * element_bytes_;
    left -= count;
  }
}

std::size_t PeriodicData::count_wrong(ConstBufferView got, std::size_t phase) const {
  const auto* found = static_cast<const std::byte*>(got.data);
  std::size_t from = phase % period;
  std::size_t wrong = 0;
  for (std::size_t left = got.count; left > 0; from = 0) {
    const std::size_t count = std::min(left, period - from);
    const std::byte* expected = bytes_.data() + from * element_bytes_;
    if (std::memcmp(found, expected, count * element_bytes_) != 0) {
      for (std::size_t i = 0; i < count * element_bytes_; i += element_bytes_)
        if (std::memcmp(found + i, expected + i, element_bytes_) != 0) ++wrong;
    }
    found += count * element_bytes_;
    left -= count;
  }
  return wrong;
}

PeriodicData bench_input(DataType dtype, ReduceKind kind, int ranks) {
  PeriodicData data(dtype);
  for (std::size_t i = 0; i < PeriodicData::period; ++i)
    encode(dtype, input_value(dtype, kind, ranks, i), data.at(i));
  return data;
}

PeriodicData bench_result(DataType dtype, ReduceOp op, int ranks, int reduced) {
  const ReduceKind kind = dtype == DataType::boolean ? logical(op.kind()) : op.kind();
  const bool is_logical = traits_of(kind).family == ReduceFamily::logical;
  const double factor = op.kind() == ReduceKind::premul_sum ? op.factor() : 1.0;
  PeriodicData data(dtype);
  for (std::size_t i = 0; i < PeriodicData::period; ++i) {
    const auto input = [&](int rank) {
      const std::size_t index = (i + phase_of_rank(rank)) % PeriodicData::period;
      const Value given = factor * input_value(dtype, op.kind(), ranks, index);
      return is_logical ? Value(given == 0.0 ? 0.0 : 1.0) : given;
    };
    Value value = input(0);
    for (int rank = 1; rank < reduced; ++rank) value = combine(kind, value, input(rank));
    if (kind == ReduceKind::avg) value = divide(dtype, value, reduced);
    encode(dtype, value, data.at(i));
  }
  return data;
}

}  // namespace hymn
