#include "hymn/object_format.hpp"

#include <cxxabi.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "hymn/error.hpp"

namespace hymn {

namespace {

/// "HYMNOBJ1", where the lowest byte comes first.
constexpr std::uint64_t object_mark = 0x314a424f4e4d5948;

constexpr std::uint64_t reversed(std::uint64_t word) {
  std::uint64_t result = 0;
  for (; word != 0; word >>= 8) result = result << 8 | (word & 0xff);
  return result;
}
static_assert(reversed(reversed(object_mark)) == object_mark);

/// A number for a type, which all compilers for one kind of machine make alike (FNV-1a).
std::uint64_t number_of(const std::type_info& type, std::size_t size) {
  std::uint64_t number = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t byte) { number = (number ^ byte) * 0x100000001b3; };
  for (const char* name = type.name(); *name != '\0'; ++name)
    add(static_cast<unsigned char>(*name));
  for (; size != 0; size >>= 8) add(size & 0xff);
  return number;
}

std::string name_of(const std::type_info& type) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, &status), std::free);
  return name != nullptr ? name.get() : type.name();
}

}  // namespace

void ObjectWriter::put_bytes(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
}

void ObjectWriter::put_count(std::size_t count) {
  const std::uint64_t number = count;
  put_bytes(std::as_bytes(std::span(&number, 1)));
}

void ObjectWriter::enter() {
  if (depth_ == max_object_depth)
    throw UsageError(fmt::format("values are nested more than {} levels deep", max_object_depth),
                     {.remedy = "give the type a hymn::ObjectFormat that writes them one after the "
                                "other"});
  ++depth_;
}

void ObjectReader::get_bytes(std::span<std::byte> bytes) {
  if (bytes.size() > left_.size())
    fail(fmt::format("{} bytes are left of it where {} are needed", left_.size(), bytes.size()));
  std::copy_n(left_.begin(), bytes.size(), bytes.begin());
  left_ = left_.subspan(bytes.size());
}

std::size_t ObjectReader::get_count(std::size_t bytes_each) {
  std::uint64_t count = 0;
  get_bytes(std::as_writable_bytes(std::span(&count, 1)));
  if (count > left_.size() / std::max<std::size_t>(bytes_each, 1))
    fail(fmt::format("{} bytes are left of it for {} elements", left_.size(), count));
  return count;
}

void ObjectReader::enter() {
  if (depth_ == max_object_depth)
    fail(fmt::format("values are nested more than {} levels deep", max_object_depth));
  ++depth_;
}

void ObjectReader::fail(const std::string& what) const {
  throw PeerError(fmt::format("the bytes of a value are damaged: {}", what),
                  {.remedy = "build all ranks from the same sources, and mix no calls for objects "
                             "with others"});
}

void detail::put_object_header(ObjectWriter& out, const std::type_info& type, std::size_t size) {
  out.put(object_mark, number_of(type, size));
}

void detail::get_object_header(ObjectReader& in, const std::type_info& type, std::size_t size) {
  std::uint64_t mark = 0;
  std::uint64_t number = 0;
  in.get(mark, number);
  if (mark == reversed(object_mark)) in.fail("it comes from a machine with another byte order");
  if (mark != object_mark) in.fail("it does not begin with the header");
  if (number != number_of(type, size))
    throw UsageError(
        fmt::format("expected a value of type {}, but one of another type was sent", name_of(type)),
        {.remedy = "give values of the same type on all ranks"});
}

}  // namespace hymn
