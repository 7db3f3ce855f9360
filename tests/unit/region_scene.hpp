// Regions between processes, as tests make them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/sanitizers.hpp"
#include "p2p/shm/memory_region.hpp"
#include "tests/support/child.hpp"
#include "tests/support/limit.hpp"

namespace hymn::test {

constexpr auto at_once = RegionPlan::Reserve::at_once;
constexpr auto on_demand = RegionPlan::Reserve::on_demand;

inline RegionPlan small_plan() {
  RegionPlan plan;
  plan.add(1000, at_once);
  plan.add(5000, at_once);
  plan.add(100'000, on_demand);
  return plan;
}

inline std::unique_ptr<SharedRegion> join(const Bytes& ticket, const RegionPlan& plan, int members,
                                          int me) {
  return join_region(ticket, plan, members, me, *DescriptorListener::open());
}

inline std::string as_text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline Bytes as_bytes(const std::string& text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

/// How many bytes of the range are not `expected`.
inline std::size_t others_than(std::byte expected, const std::byte* begin, std::size_t bytes) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < bytes; ++i) count += begin[i] != expected;
  return count;
}

/// The processes that have something in their maps, or among their descriptors, that is called so.
std::vector<pid_t> holders_of(const std::string& name);

}  // namespace hymn::test
