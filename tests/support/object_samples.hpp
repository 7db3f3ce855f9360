// Types that show all of an object's format, for what reads bytes that anybody may have written.
#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "hymn/object_format.hpp"

namespace hymn::test {

struct Point {
  std::int32_t x = 0;
  std::uint8_t y = 0;
  friend bool operator==(const Point& a, const Point& b) { return a.x == b.x && a.y == b.y; }
};

struct Tree {
  std::string name;
  std::vector<Tree> children;
  static auto object_fields(auto& self) { return std::tie(self.name, self.children); }
  friend bool operator==(const Tree&, const Tree&) = default;
};

/// Takes no byte at all.
struct Nothing {
  static auto object_fields(auto&) { return std::tuple<>(); }
  friend bool operator==(const Nothing&, const Nothing&) = default;
};

struct Everything {
  bool flag = false;
  std::vector<bool> flags;
  std::optional<std::pair<std::string, std::uint16_t>> maybe;
  std::map<std::string, std::vector<std::uint32_t>> table;
  std::unordered_map<std::int64_t, std::set<std::string>> index;
  std::array<std::list<Point>, 2> lists;
  std::tuple<char, std::array<Point, 3>> fixed{};
  std::vector<Nothing> nothings;
  int numbers[3] = {};
  std::vector<std::vector<std::vector<std::uint64_t>>> deep;

  static auto object_fields(auto& self) {
    return std::tie(self.flag, self.flags, self.maybe, self.table, self.index, self.lists,
                    self.fixed, self.nothings, self.numbers, self.deep);
  }
  friend bool operator==(const Everything&, const Everything&) = default;
};

inline Tree tree_sample() { return {"root", {{"left", {{"", {}}}}, {"right", {}}}}; }

inline Everything everything_sample() {
  Everything all{.flag = true,
                 .flags = {true, false, true},
                 .maybe = {{"text", 7}},
                 .table = {{"a", {1, 2, 3}}, {"", {}}},
                 .index = {{-1, {"x", "y"}}, {5, {}}},
                 .lists = {},
                 .fixed = {'c', {{{1, 2}, {3, 4}, {5, 6}}}},
                 .nothings = {{}, {}},
                 .numbers = {9, 8, 7},
                 .deep = {{{1}, {}}, {}, {{2, 3}}}};
  all.lists[1] = {{-1, 1}, {-2, 2}};
  return all;
}

}  // namespace hymn::test
