// A set of logical CPUs, by the numbers that the operating system gives them.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/private.hpp"

namespace hymn {

/// A value; no CPU number limit but `max_cpu`.
class CpuSet {
 public:
  static constexpr int max_cpu = 65535;

  CpuSet() = default;
  /// "0-3,8": as the kernel writes lists of CPUs; "" is the empty set. Nothing for any other text.
  HYMN_PRIVATE static std::optional<CpuSet> parse(std::string_view list);
  /// The CPUs that the calling thread may run on now.
  HYMN_PRIVATE static CpuSet of_this_thread();
  static CpuSet range(int first, int last);

  /// `cpu` is 0 … max_cpu; anything else is passed over.
  void add(int cpu);
  void remove(int cpu);
  bool contains(int cpu) const;
  bool empty() const { return words_.empty(); }
  HYMN_PRIVATE int count() const;
  /// The lowest CPU, or -1.
  int first() const;
  HYMN_PRIVATE bool intersects(const CpuSet& other) const;
  HYMN_PRIVATE bool includes(const CpuSet& other) const;
  HYMN_PRIVATE CpuSet& operator|=(const CpuSet& other);
  CpuSet& operator&=(const CpuSet& other);
  CpuSet& operator-=(const CpuSet& other);
  friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
  friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
  friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
  friend bool operator==(const CpuSet&, const CpuSet&) = default;
  friend auto operator<=>(const CpuSet&, const CpuSet&) = default;

  HYMN_PRIVATE std::vector<int> to_vector() const;
  /// "0-3,8"
  HYMN_PRIVATE std::string to_string() const;

 private:
  void trim();
  std::vector<std::uint64_t> words_;  // without zero words at the end
};

/// The first of a machine's parts that holds all of `cpus`, or -1: ordinary memory comes before
/// special one.
template <typename Part>
int holder_of(const std::vector<Part>& parts, const CpuSet& cpus) {
  if (cpus.empty()) return -1;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].cpus.includes(cpus)) return static_cast<int>(i);
  }
  return -1;
}

}  // namespace hymn
