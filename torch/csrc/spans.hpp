// The memory of calls: whether one writes what another one uses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace hymn_torch {

class Spans {
 public:
  void add_written(const void* begin, std::size_t bytes) { add(at(begin), bytes, true); }
  void add_read(const void* begin, std::size_t bytes) { add(at(begin), bytes, false); }
  /// All of these but for `hole`, which may lie outside.
  void add_read_around(const void* begin, std::size_t bytes, const void* hole,
                       std::size_t hole_bytes);
  /// False where something that is written is used twice.
  bool are_apart();

 private:
  struct Span {
    std::uintptr_t begin;
    std::uintptr_t end;
    bool is_written;
  };

  static std::uintptr_t at(const void* address) {
    return reinterpret_cast<std::uintptr_t>(address);
  }
  void add(std::uintptr_t begin, std::size_t bytes, bool is_written) {
    if (bytes > 0) spans_.push_back({begin, begin + bytes, is_written});
  }

  std::vector<Span> spans_;
};

}  // namespace hymn_torch
