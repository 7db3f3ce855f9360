// Values that cereal knows how to write.
#include "hymn/objects_cereal.hpp"

#include <gtest/gtest.h>

#include <cereal/types/base_class.hpp>
#include <cereal/types/memory.hpp>
#include <cereal/types/polymorphic.hpp>
#include <cereal/types/string.hpp>
#include <cereal/types/unordered_map.hpp>
#include <cereal/types/variant.hpp>
#include <cereal/types/vector.hpp>
#include <memory>
#include <random>
#include <string>
#include <variant>

#include "hymn/threads.hpp"

namespace hymn::test {

struct Shape {
  virtual ~Shape() = default;
  virtual double area() const = 0;
  template <class Archive>
  void serialize(Archive&) {}
};

struct Square : Shape {
  double side = 0;
  double area() const override { return side * side; }
  template <class Archive>
  void serialize(Archive& archive) {
    archive(cereal::base_class<Shape>(this), cereal::make_nvp("side", side));
  }
};

struct Scene {
  std::string name;
  std::vector<double> numbers;
  std::unordered_map<std::string, std::vector<bool>> flags;
  std::variant<int, std::string> either;
  std::shared_ptr<std::string> shared;
  std::shared_ptr<std::string> again;
  std::unique_ptr<Shape> shape;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, numbers, flags, either, shared, again, shape);
  }
};

/// hymn knows how to copy it, and it wants something else.
struct Odd {
  int number = 0;
  template <class Archive>
  void save(Archive& archive) const {
    archive(number + 1);
  }
  template <class Archive>
  void load(Archive& archive) {
    archive(number);
  }
};

/// Takes no bytes in cereal.
struct Empty {
  std::string why = "not copied byte by byte";
  template <class Archive>
  void serialize(Archive&) {}
};
struct Empties {
  std::vector<Empty> empties;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(empties);
  }
};

struct Chain {
  std::unique_ptr<Chain> next;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(next);
  }
};

}  // namespace hymn::test

CEREAL_REGISTER_TYPE(hymn::test::Square)

template <>
struct hymn::ObjectFormat<hymn::test::Odd> : hymn::CerealFormat<hymn::test::Odd> {};

namespace hymn::test {
namespace {

Scene scene() {
  Scene scene{.name = "scene",
              .numbers = {1.5, 2.5},
              .flags = {{"a", {true, false}}, {"", {}}},
              .either = "text",
              .shared = std::make_shared<std::string>("one"),
              .again = {},
              .shape = {}};
  scene.again = scene.shared;
  auto square = std::make_unique<Square>();
  square->side = 3;
  scene.shape = std::move(square);
  return scene;
}

void expect_scene(const Scene& scene) {
  EXPECT_EQ(scene.name, "scene");
  EXPECT_EQ(scene.numbers, (std::vector<double>{1.5, 2.5}));
  EXPECT_EQ(scene.flags.at("a"), (std::vector<bool>{true, false}));
  EXPECT_EQ(std::get<std::string>(scene.either), "text");
  EXPECT_EQ(*scene.shared, "one");
  EXPECT_EQ(scene.shared, scene.again) << "one object, as before";
  ASSERT_NE(scene.shape, nullptr);
  EXPECT_EQ(scene.shape->area(), 9);
}

TEST(ObjectCereal, ValuesComeBack) {
  expect_scene(unpack_object<Scene>(pack_object(scene())));
  EXPECT_EQ(unpack_object<Odd>(pack_object(Odd{4})).number, 5);
  EXPECT_EQ(unpack_object<std::vector<Odd>>(pack_object(std::vector<Odd>{{4}}))[0].number, 5);
}

TEST(ObjectCereal, WhatTakesNoBytesIsCounted) {
  for (const std::size_t count : {0u, 1u, 3u, 100u})
    EXPECT_EQ(
        unpack_object<Empties>(pack_object(Empties{std::vector<Empty>(count)})).empties.size(),
        count);
}

TEST(ObjectCereal, TravelsAsAnyOther) {
  run_ranks(3, [](World& world) {
    Scene got;
    if (world.rank() == 1) got = scene();
    broadcast_object(world.group(), got, 1);
    expect_scene(got);
    const std::vector<Scene> all = all_gather_object(world.group(), got);
    for (const Scene& each : all) expect_scene(each);
  });
}

TEST(ObjectCereal, DamageDoesNoHarm) {
  const std::vector<std::byte> packed = pack_object(scene());
  int refused = 0;
  for (std::uint64_t seed = 0; seed < 20'000; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> bytes = packed;
    const std::size_t at =
        detail::object_header_bytes + random() % (bytes.size() - detail::object_header_bytes);
    if (seed % 3 == 0) bytes.resize(at);
    if (seed % 3 == 1) bytes[at] ^= static_cast<std::byte>(1 + random() % 255);
    if (seed % 3 == 2)
      for (std::size_t i = at; i < std::min(at + 8, bytes.size()); ++i) bytes[i] = std::byte{0xff};
    bytes.shrink_to_fit();
    try {
      unpack_object<Scene>(bytes);
    } catch (const PeerError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 10'000);
  EXPECT_LT(refused, 20'000);
}

TEST(ObjectCereal, DepthHasALimit) {
  ObjectWriter out;
  detail::put_object_header(out, typeid(Chain), sizeof(Chain));
  for (int i = 0; i < 1'000'000; ++i) out.put(std::uint8_t{1});
  EXPECT_THROW(unpack_object<Chain>(out.take()), PeerError);
}

}  // namespace
}  // namespace hymn::test
