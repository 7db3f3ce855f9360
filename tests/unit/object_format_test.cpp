// Values as bytes, and what is made of bytes that are not as they were written.
#include "hymn/object_format.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <complex>
#include <cstring>
#include <deque>
#include <map>
#include <random>
#include <set>
#include <string_view>
#include <system_error>
#include <variant>

#include "hymn/error.hpp"
#include "tests/support/object_samples.hpp"

namespace hymn::test {
namespace {

using Bytes = std::vector<std::byte>;

template <class T>
void expect_comes_back(const T& value) {
  EXPECT_TRUE(unpack_object<T>(pack_object(value)) == value);
}

TEST(ObjectFormat, ValuesComeBack) {
  expect_comes_back(42);
  expect_comes_back(Point{1, 2});
  expect_comes_back(std::complex<double>(1, 2));
  expect_comes_back(std::string());
  expect_comes_back(std::string("with a \0 in it", 14));
  expect_comes_back(std::u16string(u"wide"));
  expect_comes_back(std::vector<Point>{{1, 2}, {3, 4}});
  expect_comes_back(std::deque<std::string>{"a", ""});
  expect_comes_back(std::vector<bool>{true, false});
  expect_comes_back(std::optional<int>());
  expect_comes_back(std::optional<std::optional<int>>(std::optional<int>()));
  expect_comes_back(std::multimap<int, std::string>{{1, "a"}, {1, "b"}});
  expect_comes_back(std::array<std::string, 2>{"a", "b"});
  expect_comes_back(std::array<std::string, 0>{});
  expect_comes_back(std::vector<std::tuple<>>(5));
  expect_comes_back(Nothing());
  using Setting = std::variant<std::monostate, bool, double, std::string>;
  expect_comes_back(
      std::map<std::string, Setting>{{"a", 1.5}, {"b", "text"}, {"c", true}, {"", {}}});
  expect_comes_back(tree_sample());
  expect_comes_back(everything_sample());
}

TEST(ObjectFormat, OnlyWhatIsMadeOfValuesIsTaken) {
  static_assert(Object<int> && Object<Tree> && Object<std::vector<Tree>>);
  static_assert(!Object<int*> && !Object<const char*> && !Object<std::nullptr_t>);
  static_assert(!Object<std::string_view> && !Object<std::span<const int>>);
  static_assert(!Object<std::initializer_list<int>> && !Object<int Point::*>);
  static_assert(!Object<std::shared_ptr<int>> && !Object<int[3]>);
  static_assert(!Object<std::error_code> && !Object<std::vector<int>::iterator>);
}

/// The bytes behind the header.
Bytes body_of(const Bytes& packed) {
  return {packed.begin() + detail::object_header_bytes, packed.end()};
}
Bytes bytes_of(std::initializer_list<int> values) {
  Bytes bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// As docs/objects.md tells it; on machines whose lowest byte comes first.
TEST(ObjectFormat, IsAsDocumented) {
  const Bytes packed = pack_object(std::string("ab"));
  EXPECT_EQ(std::memcmp(packed.data(), "HYMNOBJ1", 8), 0);
  EXPECT_EQ(body_of(packed), bytes_of({2, 0, 0, 0, 0, 0, 0, 0, 'a', 'b'}));
  EXPECT_EQ(body_of(pack_object(std::uint16_t{258})), bytes_of({2, 1}));
  EXPECT_EQ(body_of(pack_object(std::pair(true, std::optional<char>('c')))), bytes_of({1, 1, 'c'}));
  EXPECT_EQ(body_of(pack_object(std::optional<char>())), bytes_of({0}));
  EXPECT_EQ(body_of(pack_object(std::vector<std::tuple<>>(2))),
            bytes_of({2, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
  EXPECT_EQ(body_of(pack_object(std::array<char, 2>{'a', 'b'})), bytes_of({'a', 'b'}));
}

template <class T>
std::string refusal(const Bytes& bytes, ErrorKind kind) {
  try {
    unpack_object<T>(bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_FALSE(error.context().remedy.empty());
    return error.problem();
  }
  ADD_FAILURE() << "it was taken";
  return "";
}

/// A map, and more: its elements are not all that it is.
struct Versioned : std::map<int, int> {
  int version = 0;
};
/// As the values of libraries for JSON: a list of its own kind, or a number.
struct Json {
  using value_type = Json;
  std::vector<Json> list{};
  double number = 0;
  auto begin() const { return list.begin(); }
  auto end() const { return list.end(); }
  auto size() const { return list.size(); }
  void clear() { list.clear(); }
  auto insert(std::vector<Json>::const_iterator at, Json&& one) {
    return list.insert(at, std::move(one));
  }
};

TEST(ObjectFormat, WhatIsMoreThanItsElementsIsNoContainer) {
  static_assert(!Object<Versioned> && !Object<Json>);
  static_assert(Object<std::map<int, int>> && Object<std::set<std::string>>);
}

TEST(ObjectFormat, AVariantHasOneOfItsAlternatives) {
  using Either = std::variant<int, std::string>;
  Bytes bytes = pack_object(Either("text"));
  EXPECT_EQ(std::get<std::string>(unpack_object<Either>(bytes)), "text");
  bytes[detail::object_header_bytes] = std::byte{2};
  EXPECT_NE(refusal<Either>(bytes, ErrorKind::peer).find("alternative"), std::string::npos);
}

TEST(ObjectFormat, NoKeyIsThereTwice) {
  Bytes bytes = pack_object(std::set<char>{'a', 'b'});
  bytes.back() = std::byte{'a'};
  EXPECT_NE(refusal<std::set<char>>(bytes, ErrorKind::peer).find("twice"), std::string::npos);
}

TEST(ObjectFormat, WhatFailedInsideIsNoLongerNested) {
  ObjectReader in({});
  for (int i = 0; i < 2 * max_object_depth; ++i) {
    int value = 0;
    EXPECT_THROW(in.get(value), PeerError);
  }
  try {
    in.get_count(0);
    ADD_FAILURE() << "there is no count";
  } catch (const PeerError& error) {
    EXPECT_EQ(error.problem().find("nested"), std::string::npos) << error.problem();
  }
}

TEST(ObjectFormat, AnotherTypeIsRefused) {
  EXPECT_EQ(refusal<float>(pack_object(1), ErrorKind::usage),
            "expected a value of type float, but one of another type was sent");
  EXPECT_NE(refusal<long>(pack_object(1LL), ErrorKind::usage), "");
  EXPECT_NE(refusal<Point>(pack_object(tree_sample()), ErrorKind::usage).find("Point"),
            std::string::npos);
}

TEST(ObjectFormat, AnotherByteOrderIsRefused) {
  Bytes bytes = pack_object(1);
  std::reverse(bytes.begin(), bytes.begin() + 8);
  EXPECT_NE(refusal<int>(bytes, ErrorKind::peer).find("byte order"), std::string::npos);
  bytes[0] = {};
  EXPECT_NE(refusal<int>(bytes, ErrorKind::peer).find("begin"), std::string::npos);
}

TEST(ObjectFormat, NoLengthIsTooShortOrTooLong) {
  Bytes bytes = pack_object(everything_sample());
  for (std::size_t size = 0; size < bytes.size(); ++size)
    refusal<Everything>(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)),
                        ErrorKind::peer);
  bytes.push_back({});
  EXPECT_NE(refusal<Everything>(bytes, ErrorKind::peer).find("longer"), std::string::npos);
}

/// A value with this count in the place of its first one.
template <class T>
Bytes with_count(const T& value, std::uint64_t count) {
  Bytes bytes = pack_object(value);
  std::memcpy(bytes.data() + detail::object_header_bytes, &count, sizeof(count));
  return bytes;
}

// Before anything is allocated for them.
TEST(ObjectFormat, NoCountIsBelieved) {
  for (const std::uint64_t count : {std::uint64_t{3}, std::uint64_t{1} << 61, UINT64_MAX}) {
    refusal<std::string>(with_count(std::string("ab"), count), ErrorKind::peer);
    refusal<std::vector<double>>(with_count(std::vector<double>(2), count), ErrorKind::peer);
    refusal<std::vector<Tree>>(with_count(std::vector<Tree>(2), count), ErrorKind::peer);
    refusal<std::vector<Nothing>>(with_count(std::vector<Nothing>(2), count), ErrorKind::peer);
    refusal<std::map<int, int>>(with_count(std::map<int, int>{{1, 2}, {3, 4}}, count),
                                ErrorKind::peer);
    refusal<std::vector<std::vector<std::vector<int>>>>(
        with_count(std::vector<std::vector<std::vector<int>>>(2), count), ErrorKind::peer);
  }
}

TEST(ObjectFormat, BoolsAreTrueOrFalse) {
  Bytes bytes = pack_object(true);
  bytes.back() = std::byte{2};
  EXPECT_NE(refusal<bool>(bytes, ErrorKind::peer).find("bool"), std::string::npos);
  Bytes maybe = pack_object(std::optional<int>(1));
  maybe[detail::object_header_bytes] = std::byte{255};
  refusal<std::optional<int>>(maybe, ErrorKind::peer);
}

TEST(ObjectFormat, DepthHasALimit) {
  Tree tree;
  int levels = 0;
  try {
    for (; levels < 2 * max_object_depth; ++levels) {
      pack_object(tree);
      Tree parent;
      parent.children.push_back(std::move(tree));
      tree = std::move(parent);
    }
    ADD_FAILURE() << "there is no limit";
  } catch (const UsageError& error) {
    EXPECT_NE(error.problem().find("deep"), std::string::npos);
  }
  EXPECT_EQ(levels, max_object_depth / 2);  // the tree, its children
  // What this refuses to write it refuses to read: names of no letters, one child each.
  ObjectWriter out;
  detail::put_object_header(out, typeid(Tree), sizeof(Tree));
  for (int i = 0; i < 1'000'000; ++i) {
    out.put_count(0);
    out.put_count(1);
  }
  EXPECT_NE(refusal<Tree>(out.take(), ErrorKind::peer).find("deep"), std::string::npos);
}

// --- Damage of any kind

class Damage {
 public:
  explicit Damage(std::uint64_t seed) : random_(seed) {}

  Bytes of(Bytes bytes) {
    const std::uint64_t times = 1 + below(3);
    for (std::uint64_t i = 0; i < times; ++i) once(bytes);
    bytes.shrink_to_fit();  // so that a sanitizer sees whoever reads beyond the end
    return bytes;
  }

 private:
  std::size_t below(std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random_);
  }
  void once(Bytes& bytes) {
    if (bytes.empty()) return;
    const std::size_t at = below(bytes.size());
    const auto place = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    switch (below(6)) {
      case 0:
        bytes[at] ^= static_cast<std::byte>(1 << below(8));
        return;
      case 1:
        bytes[at] = static_cast<std::byte>(below(256));
        return;
      case 2:
        bytes.resize(at);
        return;
      case 3:
        bytes.insert(place, 1 + below(9), std::byte{});
        return;
      case 4:
        bytes.erase(place);
        return;
      default: {  // a length
        const std::uint64_t count = std::uint64_t{1} << below(64);
        std::memcpy(&bytes[at], &count, std::min(sizeof(count), bytes.size() - at));
      }
    }
  }
  std::mt19937_64 random_;
};

/// Whatever comes of it is a value, or an error of the right kind.
template <class T>
void expect_no_harm(const T& value, std::uint64_t seeds) {
  const Bytes packed = pack_object(value);
  std::uint64_t refused = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    try {
      const T again = unpack_object<T>(Damage(seed).of(packed));
      expect_comes_back(again);
    } catch (const PeerError&) {
      ++refused;
    } catch (const UsageError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, seeds / 4);
  EXPECT_LT(refused, seeds);
}

TEST(ObjectFormat, DamageDoesNoHarm) {
  expect_no_harm(everything_sample(), 20'000);
  expect_no_harm(tree_sample(), 10'000);
  expect_no_harm(std::string("text"), 2'000);
  expect_no_harm(std::vector<std::uint64_t>{1, 2, 3}, 2'000);
  expect_no_harm(std::map<std::string, std::optional<int>>{{"a", 1}, {"b", {}}}, 5'000);
}

}  // namespace
}  // namespace hymn::test
