// What `hymn topo` shows, whatever it came from: hosts, their machines and the ranks on them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tools/words.hpp"
#include "topology/placement.hpp"

namespace hymn {

struct TopoHost {
  std::string name;
  int machine = 0;  ///< index in TopoView::machines
  std::vector<RankPlace> places;
};

struct TopoView {
  std::vector<std::shared_ptr<const Machine>> machines;
  std::vector<TopoHost> hosts;
  int ranks = 0;

  const Machine& machine_of(const TopoHost& host) const {
    return *machines[static_cast<std::size_t>(host.machine)];
  }
};

/// The indices of hosts that look alike: the same machine with the same places, whatever the
/// numbers of the ranks. In order of their first hosts.
std::vector<std::vector<std::size_t>> alike_hosts(const TopoView& view);

/// "0-3,8"
std::string ranks_on(const TopoHost& host);
/// "node0, node1, node2, … 13 more"
std::string names_of(const TopoView& view, const std::vector<std::size_t>& hosts,
                     std::size_t most = 4);

/// "7.8 GiB"; "?" for 0, which means not known.
std::string human_bytes(std::uint64_t bytes);
/// "450" or "12.5", in GB/s; "?" for 0.
std::string human_gbps(double bytes_per_second);
/// "3", or "?" when it is not known.
std::string gpu_number(const Gpu& gpu);
/// "8 × NVIDIA H200", or "3 GPUs" when they differ; "" without GPUs.
std::string gpu_summary(const Machine& machine);
/// The model of the processors, or "" when not known.
std::string cpu_model(const Machine& machine);
/// Of all NUMA nodes; where they do not tell, the host's total.
std::uint64_t memory_of(const Machine& machine);
/// "2 × EPYC 9654 · 192 cores · 1.5 TiB · 8 × NVIDIA H200"
std::string machine_summary(const Machine& machine);
/// In words: "NVLink through NVSwitch".
std::string_view link_words(GpuLinkKind kind);

}  // namespace hymn
