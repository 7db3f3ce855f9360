// Inputs for reductions at awkward addresses, with what must come out of them.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "tests/unit/reduce_reference.hpp"

namespace hymn::reference {

/// An array that starts at an odd address, or another unusual one, and is followed by bytes that
/// nobody may touch.
template <class T>
class OddArray {
 public:
  explicit OddArray(std::size_t count, std::size_t offset = 1)
      : offset_(offset), bytes_(offset + count * sizeof(T) + guard, std::byte{0xa5}) {}

  std::byte* data() { return bytes_.data() + offset_; }
  T get(std::size_t index) {
    T value;
    std::memcpy(&value, data() + index * sizeof(T), sizeof(T));
    return value;
  }
  void set(std::size_t index, T value) {
    std::memcpy(data() + index * sizeof(T), &value, sizeof(T));
  }
  bool is_whole() const {
    const auto is_untouched = [](std::byte byte) { return byte == std::byte{0xa5}; };
    return std::all_of(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(offset_),
                       is_untouched) &&
           std::all_of(bytes_.end() - guard, bytes_.end(), is_untouched);
  }

 private:
  static constexpr int guard = 64;
  std::size_t offset_;
  std::vector<std::byte> bytes_;
};

/// The inputs of some ranks and what must come out.
template <class Reference>
struct Scene {
  using Element = typename Reference::Element;

  Scene(Random& random, const ReduceOp& op, std::size_t ranks, std::size_t count)
      : inputs(ranks, OddArray<Element>(count)) {
    for (std::size_t i = 0; i < count; ++i) {
      Column<Element> column{{}, op.factor()};
      for (OddArray<Element>& input : inputs) {
        column.values.push_back(Reference::random(random));
        input.set(i, column.values.back());
      }
      expected.push_back(Reference::reduce(op.kind(), column));
    }
  }

  std::vector<OddArray<Element>> inputs;
  std::vector<Element> expected;
};

}  // namespace hymn::reference
