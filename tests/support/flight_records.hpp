// What tests of the flight recorder share: calls to be recorded, and the records as JSON.
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <vector>

#include "tests/support/blocks.hpp"

namespace hymn::test {

using Json = nlohmann::json;

inline constexpr std::array<std::int64_t, 2> three_by_four = {3, 4};

/// An array of 3 by 4.
class Matrix {
 public:
  explicit Matrix(float value) : values_(12, value) {}
  BufferView view() {
    BufferView view(values_);
    view.shape = three_by_four;
    return view;
  }

 private:
  std::vector<float> values_;
};

inline Json record_of(const World& world, const RecordOptions& options = {}) {
  return Json::parse(world.flight_record(options));
}

inline Json last_of(const World& world) { return record_of(world)["entries"].back(); }

}  // namespace hymn::test
