// What lies where in a region: the same for every member, settled before there is any memory.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace hymn {

/// A region is one common page, and behind it a part for each member. A part consists of areas:
/// first those that are reserved at once, then those that are reserved when they are first used.
/// All members make the same plan, so that they find each other's areas. Pages are those of the
/// machine, which all members are on: kernels reserve no less.
class RegionPlan {
 public:
  enum class Reserve : unsigned char { at_once, on_demand };
  struct Area {
    std::size_t offset = 0;  ///< in a member's part
    std::size_t bytes = 0;
  };

  /// Two neighbouring cache lines travel together on many processors.
  static constexpr std::size_t line_bytes = 128;
  /// What may be used of the common page; no machine's are smaller.
  static constexpr std::size_t common_bytes = 4096;

  static std::size_t page_of_machine();
  RegionPlan() : RegionPlan(page_of_machine()) {}
  /// Another `page` than the machine's, a multiple of it, is for tests.
  explicit RegionPlan(std::size_t page) : page_(page) {}

  /// Adds an area of that many bytes to each member's part and returns its index. Areas that are
  /// reserved at once begin on a line and must be added before all others, which begin on a page.
  int add(std::size_t bytes, Reserve when);

  const Area& area(int index) const { return areas_[static_cast<std::size_t>(index)]; }
  bool is_on_demand(int index) const { return index >= first_on_demand_; }
  std::size_t areas() const { return areas_.size(); }
  /// What every member reserves when the region is made, in whole pages.
  std::size_t at_once_bytes() const;
  /// A member's part, in whole pages.
  std::size_t part_bytes() const;
  /// Where the first member's part begins.
  std::size_t parts_begin() const { return page_; }
  std::size_t total_bytes(int members) const {
    return parts_begin() + part_bytes() * static_cast<std::size_t>(members);
  }

 private:
  std::size_t page_;
  std::vector<Area> areas_;
  int first_on_demand_ = 0;
};

}  // namespace hymn
