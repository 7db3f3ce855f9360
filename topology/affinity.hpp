// Binding threads to CPUs: shares of what ranks may use, and a place for helper threads.
#pragma once

#include <span>
#include <vector>

#include "base/config.hpp"
#include "base/private.hpp"
#include "topology/machine.hpp"

namespace hymn {

/// What one rank of a host asks for.
struct BindWish {
  CpuSet cpus;  ///< that it may use now
  BindTo to = BindTo::none;
  friend bool operator==(const BindWish&, const BindWish&) = default;
};

/// The CPUs of each rank once it is bound, in the same order; always among those it has now. Ranks
/// with the same wish divide its cores, NUMA nodes or packages evenly in their order. A rank that
/// does not bind, or lies within one unit already, keeps what it has.
std::vector<CpuSet> share_out(const Machine& machine, std::span<const BindWish> wishes);

/// Where a helper thread of a rank may run: within `granted`, what the rank had before it bound its
/// own thread; off the cores to which the threads of this rank and of `others` are bound. Where no
/// core is left, it stays with its rank's thread.
CpuSet cpus_for_helper(const Machine& machine, const CpuSet& granted, const CpuSet& own,
                       std::span<const CpuSet> others);

/// False when the kernel refuses (a CPU that the cpuset does not grant), or `cpus` is empty.
HYMN_PRIVATE bool bind_this_thread(const CpuSet& cpus);

}  // namespace hymn
