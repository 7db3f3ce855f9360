#include "tests/support/data.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iomanip>
#include <sstream>

namespace hymn::test {
namespace {

constexpr std::array dtypes = {DataType::boolean,       DataType::int8,       DataType::uint8,
                               DataType::int16,         DataType::uint16,     DataType::int32,
                               DataType::uint32,        DataType::int64,      DataType::uint64,
                               DataType::float16,       DataType::bfloat16,   DataType::float32,
                               DataType::float64,       DataType::complex64,  DataType::complex128,
                               DataType::float8_e4m3fn, DataType::float8_e5m2};

constexpr std::array kinds = {ReduceKind::sum,  ReduceKind::product, ReduceKind::min,
                              ReduceKind::max,  ReduceKind::band,    ReduceKind::bor,
                              ReduceKind::bxor, ReduceKind::land,    ReduceKind::lor,
                              ReduceKind::lxor, ReduceKind::avg,     ReduceKind::premul_sum};

bool is_integer(DataType dtype) { return traits_of(dtype).family == DataFamily::integer; }

bool is_unsigned(DataType dtype) {
  return dtype == DataType::uint8 || dtype == DataType::uint16 || dtype == DataType::uint32 ||
         dtype == DataType::uint64;
}

bool is_bitwise(ReduceKind kind) { return traits_of(kind).family == ReduceFamily::bitwise; }
bool is_logical(ReduceKind kind) { return traits_of(kind).family == ReduceFamily::logical; }

/// A whole number; the imaginary part is for the complex types.
struct Number {
  std::int64_t re = 0;
  std::int64_t im = 0;
};

Number times(Number a, Number b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

/// The numbers of a rank repeat after so many: no length of a block or a vector divides it.
constexpr std::size_t period = 1009;

Number input_number(DataType dtype, ReduceKind kind, int rank, std::size_t index) {
  const auto step =
      static_cast<std::int64_t>(rank) * 5 + static_cast<std::int64_t>(index % period) * 3;
  if (dtype == DataType::boolean) return {step % 3 == 0 ? 0 : step % 251 + 1};
  const bool has_sign = !is_unsigned(dtype);
  const std::int64_t sign = has_sign && step % 3 == 0 ? -1 : 1;
  // Zeros are avoided where hymn would be free to answer -0, which has other bits.
  if (kind == ReduceKind::product) {
    // Up to seven factors stay exact even in bfloat16, and powers of 1+2i have no part that is
    // zero.
    const std::int64_t factor = step % 4 == 0 ? 2 : 1;
    return {sign * factor, is_complex(dtype) ? sign * factor * 2 : 0};
  }
  if (kind == ReduceKind::premul_sum)
    return {sign * (step % 6 + 1), is_complex(dtype) ? sign * (step % 5 + 1) : 0};
  const std::int64_t shift = has_sign ? 6 : 0;
  return {step % 13 - shift, is_complex(dtype) ? (step + 4) % 13 - shift : 0};
}

std::int64_t factor_of(DataType dtype, int rank) {
  return rank % 2 != 0 && !is_unsigned(dtype) ? -(rank + 1) : rank + 1;
}

Number combine(DataType dtype, ReduceKind kind, Number a, Number b) {
  switch (kind) {
    case ReduceKind::product:
      if (dtype == DataType::boolean) return {a.re != 0 && b.re != 0};
      return times(a, b);
    case ReduceKind::min:
      return {std::min(a.re, b.re)};
    case ReduceKind::max:
      return {std::max(a.re, b.re)};
    case ReduceKind::band:
    case ReduceKind::land:
      return {a.re & b.re};
    case ReduceKind::bor:
    case ReduceKind::lor:
      return {a.re | b.re};
    case ReduceKind::bxor:
    case ReduceKind::lxor:
      return {a.re ^ b.re};
    case ReduceKind::sum:
    case ReduceKind::avg:
    case ReduceKind::premul_sum:
    case ReduceKind::custom:
    case ReduceKind::opaque:
      break;
  }
  return {a.re + b.re, a.im + b.im};
}

template <class T>
void store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

/// number / divisor as an element of this type, at `at`.
void encode(DataType dtype, Number number, int divisor, std::byte* at) {
  const auto single = [&](std::int64_t part) {
    return static_cast<float>(part) / static_cast<float>(divisor);
  };
  const auto real = [&](std::int64_t part) { return static_cast<double>(part) / divisor; };
  const std::int64_t whole = number.re / divisor;  // toward zero
  switch (dtype) {
    case DataType::boolean:
      return store(at, static_cast<std::uint8_t>(number.re));
    case DataType::int8:
    case DataType::uint8:
      return store(at, static_cast<std::uint8_t>(whole));
    case DataType::int16:
    case DataType::uint16:
      return store(at, static_cast<std::uint16_t>(whole));
    case DataType::int32:
    case DataType::uint32:
      return store(at, static_cast<std::uint32_t>(whole));
    case DataType::int64:
    case DataType::uint64:
      return store(at, static_cast<std::uint64_t>(whole));
    case DataType::float16:
      return store(at, float16(single(number.re)));
    case DataType::bfloat16:
      return store(at, bfloat16(single(number.re)));
    case DataType::float32:
      return store(at, single(number.re));
    case DataType::float64:
      return store(at, real(number.re));
    case DataType::complex64:
      store(at, single(number.re));
      return store(at + sizeof(float), single(number.im));
    case DataType::complex128:
      store(at, real(number.re));
      return store(at + sizeof(double), real(number.im));
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::value:
    case DataType::opaque:
      FAIL() << "no numbers in " << to_string(dtype);
  }
}

/// Calls encode_at(index, where) for the elements up to the period, and copies these from there on.
template <class Encode>
void fill_repeating(BufferView view, Encode encode_at) {
  const std::size_t size = view.element_bytes();
  auto* const begin = static_cast<std::byte*>(view.data);
  for (std::size_t i = 0; i < std::min(view.count, period); ++i) encode_at(i, begin + i * size);
  const std::size_t unit = period * size;
  for (std::size_t done = unit; done < view.bytes(); done += unit)
    std::memcpy(begin + done, begin, std::min(unit, view.bytes() - done));
}

std::byte moved_byte(DataType dtype, int source, int salt, std::size_t place) {
  const auto value = static_cast<unsigned>(source * 37 + salt * 101 + 1) +
                     static_cast<unsigned>(place * 7 + (place >> 8) * 13);
  return static_cast<std::byte>(dtype == DataType::boolean ? value & 1u : value & 0xffu);
}

std::string hex(const std::byte* at, std::size_t bytes) {
  std::ostringstream text;
  text << "0x" << std::hex << std::setfill('0');
  for (std::size_t i = bytes; i-- > 0;) text << std::setw(2) << std::to_integer<unsigned>(at[i]);
  return text.str();
}

std::string place(const std::source_location& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

}  // namespace

std::span<const DataType> all_dtypes() { return dtypes; }
std::span<const ReduceKind> all_kinds() { return kinds; }

bool is_complex(DataType dtype) {
  return dtype == DataType::complex64 || dtype == DataType::complex128;
}

bool is_defined(DataType dtype, ReduceKind kind) {
  if (dtype == DataType::float8_e4m3fn || dtype == DataType::float8_e5m2) return false;
  if (is_integer(dtype)) return true;
  if (dtype == DataType::boolean) return kind != ReduceKind::avg && kind != ReduceKind::premul_sum;
  if (is_bitwise(kind) || is_logical(kind)) return false;
  return !is_complex(dtype) || (kind != ReduceKind::min && kind != ReduceKind::max);
}

std::string cell_name(DataType dtype, ReduceKind kind) {
  return std::string(to_string(dtype)) + " " + std::string(to_string(kind));
}

Buffer::Buffer(DataType dtype, std::size_t count, std::size_t offset)
    : dtype_(dtype),
      count_(count),
      offset_(offset),
      // A line before, what the elements touch, and at least a line behind.
      lines_(3 + (offset + count * size_of(dtype)) / sizeof(Line)) {
  std::memset(lines_.data(), std::to_integer<int>(filler), lines_.size() * sizeof(Line));
}

bool Buffer::guards_intact() const {
  const auto is_filler = [](std::byte byte) { return byte == filler; };
  const auto* begin = lines_.front().bytes.data();
  const auto* end = begin + lines_.size() * sizeof(Line);
  return std::all_of(begin, data(), is_filler) && std::all_of(data() + bytes(), end, is_filler);
}

void fill(BufferView view, int source, int salt) {
  auto* bytes = static_cast<std::byte*>(view.data);
  for (std::size_t i = 0; i < view.bytes(); ++i) bytes[i] = moved_byte(view.dtype, source, salt, i);
}

Buffer filled(DataType dtype, std::size_t count, int source, int salt) {
  Buffer buffer(dtype, count);
  fill(buffer, source, salt);
  return buffer;
}

void expect_filled(ConstBufferView view, int source, int salt, std::source_location where) {
  Buffer expected(view.dtype, view.count);
  fill(expected, source, salt);
  expect_equal(expected, view, where);
}

void expect_untouched(ConstBufferView view, std::source_location where) {
  const Buffer expected(view.dtype, view.count);
  expect_equal(expected, view, where);
}

ReduceOp op_of(ReduceKind kind, DataType dtype, int rank) {
  if (kind != ReduceKind::premul_sum) return ReduceOp::of(kind);
  return ReduceOp::premul_sum(static_cast<double>(factor_of(dtype, rank)));
}

void fill_numbers(BufferView view, ReduceKind kind, int rank, std::size_t first) {
  fill_repeating(view, [&](std::size_t i, std::byte* at) {
    encode(view.dtype, input_number(view.dtype, kind, rank, first + i), 1, at);
  });
}

Buffer reduction_input(DataType dtype, ReduceKind kind, int rank, std::size_t count,
                       std::size_t first) {
  Buffer input(dtype, count);
  fill_numbers(input, kind, rank, first);
  return input;
}

Buffer reduction_result(DataType dtype, ReduceKind kind, std::span<const int> ranks,
                        std::size_t count, std::size_t first) {
  Buffer result(dtype, count);
  const int divisor = kind == ReduceKind::avg ? static_cast<int>(ranks.size()) : 1;
  fill_repeating(result, [&](std::size_t i, std::byte* at) {
    Number folded;
    for (std::size_t member = 0; member < ranks.size(); ++member) {
      Number number = input_number(dtype, kind, ranks[member], first + i);
      if (dtype == DataType::boolean || is_logical(kind)) number = {number.re != 0};
      if (kind == ReduceKind::premul_sum) number = times(number, {factor_of(dtype, ranks[member])});
      folded = member == 0 ? number : combine(dtype, kind, folded, number);
    }
    if (dtype == DataType::boolean) folded = {folded.re != 0};
    encode(dtype, folded, divisor, at);
  });
  return result;
}

void expect_equal(ConstBufferView expected, ConstBufferView actual, std::source_location where) {
  ASSERT_EQ(expected.dtype, actual.dtype) << place(where);
  ASSERT_EQ(expected.count, actual.count) << place(where);
  if (expected.bytes() == 0) return;
  const auto* want = static_cast<const std::byte*>(expected.data);
  const auto* got = static_cast<const std::byte*>(actual.data);
  if (std::memcmp(want, got, expected.bytes()) == 0) return;
  const std::size_t size = expected.element_bytes();
  std::size_t index = 0;
  while (std::memcmp(want + index * size, got + index * size, size) == 0) ++index;
  ADD_FAILURE() << place(where) << ": " << to_string(expected.dtype) << " element " << index
                << " of " << expected.count << " is " << hex(got + index * size, size)
                << " and should be " << hex(want + index * size, size);
}

void expect_same_everywhere(ProcessGroup& group, ConstBufferView mine, std::source_location where) {
  const std::size_t bytes = mine.bytes();
  const ConstBufferView raw(mine.data, bytes, DataType::uint8);
  Buffer all(DataType::uint8, bytes * static_cast<std::size_t>(group.size()));
  group.all_gather(raw, all);
  for (std::size_t member = 0; bytes != 0 && member < all.count() / bytes; ++member)
    EXPECT_EQ(std::memcmp(mine.data, all.data() + member * bytes, bytes), 0)
        << place(where) << ": group rank " << member << " holds other bits";
}

}  // namespace hymn::test
