#include "p2p/shm/region_plan.hpp"

#include <unistd.h>

#include <stdexcept>

namespace hymn {
namespace {

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

std::size_t RegionPlan::page_of_machine() {
  static const auto bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

int RegionPlan::add(std::size_t bytes, Reserve when) {
  const bool at_once = when == Reserve::at_once;
  const int index = static_cast<int>(areas_.size());
  if (at_once && first_on_demand_ != index)
    throw std::logic_error("an area that is reserved at once is added behind one that is not");
  const std::size_t end = areas_.empty() ? 0 : areas_.back().offset + areas_.back().bytes;
  const std::size_t unit = at_once ? line_bytes : page_;
  areas_.push_back({round_up(end, unit), round_up(bytes, unit)});
  if (at_once) ++first_on_demand_;
  return index;
}

std::size_t RegionPlan::at_once_bytes() const {
  if (first_on_demand_ == 0) return 0;
  const Area& last = areas_[static_cast<std::size_t>(first_on_demand_ - 1)];
  return round_up(last.offset + last.bytes, page_);
}

std::size_t RegionPlan::part_bytes() const {
  return areas_.empty() ? 0 : round_up(areas_.back().offset + areas_.back().bytes, page_);
}

}  // namespace hymn
