#include "collectives/reduce/identity.hpp"

#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

namespace hymn {
namespace {

template <class Value>
bool fill(std::span<std::byte> memory, std::optional<Value> value) {
  if (!value) return false;
  for (std::size_t at = 0; at + sizeof(Value) <= memory.size(); at += sizeof(Value))
    std::memcpy(memory.data() + at, &*value, sizeof(Value));
  return true;
}

template <class Value>
std::optional<Value> whole_number(ReduceKind kind) {
  using Limits = std::numeric_limits<Value>;
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::avg:
    case ReduceKind::premul_sum:
    case ReduceKind::bor:
    case ReduceKind::bxor:
    case ReduceKind::lor:
    case ReduceKind::lxor:
      return Value{0};
    case ReduceKind::product:
    case ReduceKind::land:
      return Value{1};
    case ReduceKind::min:
      return Limits::max();
    case ReduceKind::max:
      return Limits::lowest();
    case ReduceKind::band:
      return static_cast<Value>(~Value{0});
    case ReduceKind::custom:
    case ReduceKind::opaque:
      break;
  }
  return std::nullopt;
}

// As a float, which the small types can hold, too.
std::optional<float> real_number(ReduceKind kind) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  switch (kind) {
    case ReduceKind::sum:
    case ReduceKind::avg:
    case ReduceKind::premul_sum:
      return -0.0F;  // plus zero would make plus zero of minus zero
    case ReduceKind::product:
      return 1.0F;
    case ReduceKind::min:
      return infinity;
    case ReduceKind::max:
      return -infinity;
    case ReduceKind::band:
    case ReduceKind::bor:
    case ReduceKind::bxor:
    case ReduceKind::land:
    case ReduceKind::lor:
    case ReduceKind::lxor:
    case ReduceKind::custom:
    case ReduceKind::opaque:
      break;
  }
  return std::nullopt;
}

template <class Value>
std::optional<Value> real_as(ReduceKind kind) {
  const auto number = real_number(kind);
  return number ? std::optional(Value(*number)) : std::nullopt;
}

template <class Part>
std::optional<std::complex<Part>> complex_number(ReduceKind kind) {
  if (traits_of(kind).family == ReduceFamily::sum)
    return std::complex<Part>(Part(-0.0F), Part(-0.0F));
  if (kind == ReduceKind::product) return std::complex<Part>(1, 0);
  return std::nullopt;
}

// One byte, 0 or 1: whole_number() would give other values, which all count as true.
std::optional<std::uint8_t> truth(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::product:
    case ReduceKind::min:
    case ReduceKind::band:
    case ReduceKind::land:
      return std::uint8_t{1};
    case ReduceKind::sum:
    case ReduceKind::max:
    case ReduceKind::bor:
    case ReduceKind::bxor:
    case ReduceKind::lor:
    case ReduceKind::lxor:
      return std::uint8_t{0};
    case ReduceKind::avg:
    case ReduceKind::premul_sum:
    case ReduceKind::custom:
    case ReduceKind::opaque:
      break;
  }
  return std::nullopt;
}

template <class Value>
std::optional<Value> whole_number_of(double number) {
  // The first one that is too large: as a double it is exact, as the largest one may not be.
  const double end = std::ldexp(1.0, std::numeric_limits<Value>::digits);
  const bool fits = std::trunc(number) == number && number < end &&
                    number >= static_cast<double>(std::numeric_limits<Value>::lowest());
  return fits ? std::optional(static_cast<Value>(number)) : std::nullopt;
}

}  // namespace

bool fill_number(std::span<std::byte> memory, DataType dtype, double number) {
  const auto real = static_cast<float>(number);
  switch (dtype) {
    case DataType::boolean: {
      const bool is_truth = number == 0 || number == 1;
      return is_truth && fill(memory, whole_number_of<std::uint8_t>(number));
    }
    case DataType::int8:
      return fill(memory, whole_number_of<std::int8_t>(number));
    case DataType::uint8:
      return fill(memory, whole_number_of<std::uint8_t>(number));
    case DataType::int16:
      return fill(memory, whole_number_of<std::int16_t>(number));
    case DataType::uint16:
      return fill(memory, whole_number_of<std::uint16_t>(number));
    case DataType::int32:
      return fill(memory, whole_number_of<std::int32_t>(number));
    case DataType::uint32:
      return fill(memory, whole_number_of<std::uint32_t>(number));
    case DataType::int64:
      return fill(memory, whole_number_of<std::int64_t>(number));
    case DataType::uint64:
      return fill(memory, whole_number_of<std::uint64_t>(number));
    case DataType::float16:
      return fill(memory, std::optional(float16(real)));
    case DataType::bfloat16:
      return fill(memory, std::optional(bfloat16(real)));
    case DataType::float32:
      return fill(memory, std::optional(real));
    case DataType::float64:
      return fill(memory, std::optional(number));
    case DataType::complex64:
      return fill(memory, std::optional(std::complex<float>(real)));
    case DataType::complex128:
      return fill(memory, std::optional(std::complex<double>(number)));
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
      // No arithmetic is defined for these; zero has no bits.
      return number == 0 && fill(memory, whole_number_of<std::uint8_t>(number));
    case DataType::value:
    case DataType::opaque:
      break;
  }
  return false;
}

bool fill_identity(std::span<std::byte> memory, DataType dtype, ReduceKind kind) {
  switch (dtype) {
    case DataType::boolean:
      return fill(memory, truth(kind));
    case DataType::int8:
      return fill(memory, whole_number<std::int8_t>(kind));
    case DataType::uint8:
      return fill(memory, whole_number<std::uint8_t>(kind));
    case DataType::int16:
      return fill(memory, whole_number<std::int16_t>(kind));
    case DataType::uint16:
      return fill(memory, whole_number<std::uint16_t>(kind));
    case DataType::int32:
      return fill(memory, whole_number<std::int32_t>(kind));
    case DataType::uint32:
      return fill(memory, whole_number<std::uint32_t>(kind));
    case DataType::int64:
      return fill(memory, whole_number<std::int64_t>(kind));
    case DataType::uint64:
      return fill(memory, whole_number<std::uint64_t>(kind));
    case DataType::float16:
      return fill(memory, real_as<float16>(kind));
    case DataType::bfloat16:
      return fill(memory, real_as<bfloat16>(kind));
    case DataType::float32:
      return fill(memory, real_as<float>(kind));
    case DataType::float64:
      return fill(memory, real_as<double>(kind));
    case DataType::complex64:
      return fill(memory, complex_number<float>(kind));
    case DataType::complex128:
      return fill(memory, complex_number<double>(kind));
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::value:
    case DataType::opaque:
      break;
  }
  return false;
}

}  // namespace hymn
