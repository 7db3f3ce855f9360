// What memory several calls use that are made at the same time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace hymn {

class MemoryRanges {
 public:
  explicit MemoryRanges(std::size_t calls) { ranges_.reserve(2 * calls); }

  void add(const void* data, std::size_t bytes, std::size_t call, bool is_written);
  /// Two calls, the lower number first, of which one writes what the other uses.
  std::optional<std::pair<std::size_t, std::size_t>> find_shared();

 private:
  struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::size_t call;
    bool is_written;
  };
  class LastEnds;

  std::vector<Range> ranges_;
  bool is_sorted_ = true;
};

}  // namespace hymn
