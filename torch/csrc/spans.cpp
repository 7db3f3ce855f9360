#include "spans.hpp"

#include <algorithm>

namespace hymn_torch {

void Spans::add_read_around(const void* begin, std::size_t bytes, const void* hole,
                            std::size_t hole_bytes) {
  const std::uintptr_t first = at(begin);
  const std::uintptr_t last = first + bytes;
  const std::uintptr_t hole_begin = std::clamp(at(hole), first, last);
  const std::uintptr_t hole_end = std::clamp(at(hole) + hole_bytes, first, last);
  add(first, hole_begin - first, false);
  add(hole_end, last - hole_end, false);
}

bool Spans::are_apart() {
  std::sort(spans_.begin(), spans_.end(),
            [](const Span& one, const Span& other) { return one.begin < other.begin; });
  std::uintptr_t used = 0;
  std::uintptr_t written = 0;
  for (const Span& span : spans_) {
    if (span.begin < written || (span.is_written && span.begin < used)) return false;
    used = std::max(used, span.end);
    if (span.is_written) written = std::max(written, span.end);
  }
  return true;
}

}  // namespace hymn_torch
