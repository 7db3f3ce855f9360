#include "collectives/memory_ranges.hpp"

#include <algorithm>

namespace hymn {

/// Of ranges that come by their beginnings, the one that ends last, and the one of another call
/// that does.
class MemoryRanges::LastEnds {
 public:
  void add(const Range& range) {
    if (range.call == last_.call || range.end <= last_.end) {
      Range& kept = range.call == last_.call ? last_ : other_;
      if (range.end > kept.end) kept = range;
    } else {
      other_ = std::exchange(last_, range);
    }
  }
  /// Its end is 0 where there is none.
  const Range& before_of_another(std::size_t call) const {
    return last_.call == call ? other_ : last_;
  }

 private:
  Range last_{};
  Range other_{};
};

void MemoryRanges::add(const void* data, std::size_t bytes, std::size_t call, bool is_written) {
  if (bytes == 0) return;
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  is_sorted_ = is_sorted_ && (ranges_.empty() || ranges_.back().begin <= begin);
  ranges_.push_back({begin, begin + bytes, call, is_written});
}

std::optional<std::pair<std::size_t, std::size_t>> MemoryRanges::find_shared() {
  if (!is_sorted_) std::ranges::sort(ranges_, {}, &Range::begin);
  LastEnds any;
  LastEnds written;
  for (const Range& range : ranges_) {
    const Range& before = (range.is_written ? any : written).before_of_another(range.call);
    if (before.end > range.begin) return std::minmax({before.call, range.call});
    any.add(range);
    if (range.is_written) written.add(range);
  }
  return std::nullopt;
}

}  // namespace hymn
