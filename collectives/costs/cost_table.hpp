// The figures behind all predictions: one table, each row with what it stands on.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>
#include <string_view>

namespace hymn {

/// What surrounds the ranks that a row is about.
enum class CostSetting : unsigned char {
  one_host,        ///< with a core for every rank
  oversubscribed,  ///< one host, more ranks than cores
  several_hosts,   ///< what software adds between hosts; the wire comes on top
};

/// time = start + rounds * per_round + bytes a rank moves * (per_byte + 1 / (link * link_share)).
/// docs/tuning.md tells how many rounds and bytes each collective has.
struct CostRow {
  std::string_view path;
  std::string_view method;
  CostSetting setting = CostSetting::one_host;
  double start = 0;             ///< seconds
  double per_round = 0;         ///< seconds
  double per_byte_moved = 0;    ///< seconds, where data is only moved
  double per_byte_reduced = 0;  ///< seconds, where it is combined
  double link_share = 0;  ///< part of the links' nominal bandwidth that is reached; 0: no links
  std::string_view stands_on;
};

namespace cost_parts {

inline constexpr double ns = 1e-9;
inline constexpr double us = 1e-6;
inline constexpr double ps = 1e-12;

inline constexpr std::string_view two_cores =
    "hymn bench with --timeout none, 2 ranks on 2 cores of an AMD EPYC virtual machine, Open MPI "
    "4.1.4, 4 B to 4 MB, 2026-11-21";
inline constexpr std::string_view four_on_two =
    "hymn bench with --timeout none, 4 ranks on 2 cores of an AMD EPYC virtual machine, Open MPI "
    "4.1.4, 4 B to 4 MB, 2026-11-21";
inline constexpr std::string_view over_tcp =
    "hymn bench with --timeout none, 2 ranks on 2 cores that talk by TCP over the loopback "
    "interface (mpirun --mca btl tcp,self), 4 B to 4 MB, 2026-11-21; no real network was measured";
inline constexpr std::string_view exchange_over_tcp =
    "not measured: the figures of mpi_p2p over TCP, with what exchange adds to mpi_p2p on one host";
inline constexpr std::string_view own_tcp = "not measured yet";
inline constexpr std::string_view shared_memory =
    "all_reduce of float32 through shared memory with a deadline, in ordinary 4 KB pages, 2 cores "
    "of "
    "an AMD EPYC virtual machine, 2 ranks, and 4 and 8 ranks where oversubscribed, 4 B to 16 MB, "
    "2026-11-21";
inline constexpr std::string_view composed =
    "the sum of its parts: shm inside a host, mpi between hosts";
inline constexpr std::string_view peer_kernels =
    "published figures of one-shot and two-shot kernels on 8 H100 with NVSwitch: 7 to 13 us from "
    "16 KB to 0.5 MB; not measured with hymn";
inline constexpr std::string_view peer_windows =
    "not measured: the figures of one_shot, whose steps these kernels take, too";
inline constexpr std::string_view composed_on_gpus =
    "the sum of its parts: cuda_p2p's windows inside a host; nccl, or staged and mpi_p2p, between "
    "hosts";
inline constexpr std::string_view nccl_figures =
    "nccl-tests on 8 H100 with NVSwitch as published: 32 to 34 us for small all_reduce, about 100 "
    "us at 10 MB, above 400 GB/s bus bandwidth for large ones; not measured with hymn";
inline constexpr std::string_view nccl_network =
    "as NCCL on one host, with 10 us for each host as NCCL's own model of a network has it; not "
    "measured with hymn";
inline constexpr std::string_view engine_copies =
    "two copies by the GPU's copy engine and two waits for the stream, 10 us each, 20 GB/s as PCIe "
    "4.0 x16 reaches; not measured with hymn";

inline constexpr auto on_one_host = CostSetting::one_host;
inline constexpr auto oversubscribed = CostSetting::oversubscribed;
inline constexpr auto several_hosts = CostSetting::several_hosts;

// The figures of mpi and mpi_p2p are those of the same messages, and the same on purpose: what
// sets the two apart by default is the number of messages. Which of them is really faster at some
// size depends on the MPI library (Open MPI's MPI_Reduce_scatter took ten times longer than
// pairwise messages at 4 MB), and is what `hymn tune` is for.
//
// path, method, setting, start, per round, per byte moved, per byte reduced, share of the link.
inline constexpr std::array cost_table = {
    CostRow{"threads", "direct", on_one_host, 100 * ns, 200 * ns, 32 * ps, 26 * ps, 0, two_cores},
    CostRow{"threads", "direct", oversubscribed, 100 * ns, 1.5 * us, 115 * ps, 83 * ps, 0,
            four_on_two},
    CostRow{"mpi", "mpi", on_one_host, 100 * ns, 200 * ns, 79 * ps, 97 * ps, 0, two_cores},
    CostRow{"mpi", "mpi", oversubscribed, 100 * ns, 1.5 * us, 230 * ps, 300 * ps, 0, four_on_two},
    CostRow{"mpi", "mpi", several_hosts, 100 * ns, 6.5 * us, 240 * ps, 240 * ps, 1, over_tcp},
    CostRow{"mpi_p2p", "pairwise", on_one_host, 100 * ns, 200 * ns, 79 * ps, 97 * ps, 0, two_cores},
    CostRow{"mpi_p2p", "pairwise", oversubscribed, 100 * ns, 1.5 * us, 230 * ps, 300 * ps, 0,
            four_on_two},
    CostRow{"mpi_p2p", "pairwise", several_hosts, 100 * ns, 6.5 * us, 240 * ps, 240 * ps, 1,
            over_tcp},
    CostRow{"tcp", "pairwise", on_one_host, 100 * ns, 6.5 * us, 240 * ps, 240 * ps, 0, own_tcp},
    CostRow{"tcp", "pairwise", oversubscribed, 100 * ns, 13 * us, 480 * ps, 480 * ps, 0, own_tcp},
    CostRow{"tcp", "pairwise", several_hosts, 100 * ns, 6.5 * us, 240 * ps, 240 * ps, 1, own_tcp},
    CostRow{"exchange", "pairwise", on_one_host, 100 * ns, 600 * ns, 850 * ps, 1050 * ps, 0,
            two_cores},
    CostRow{"exchange", "pairwise", oversubscribed, 100 * ns, 4 * us, 1800 * ps, 1800 * ps, 0,
            four_on_two},
    CostRow{"exchange", "pairwise", several_hosts, 100 * ns, 7 * us, 1100 * ps, 1300 * ps, 1,
            exchange_over_tcp},
    // Oversubscribed, a round is one for each other rank, and bytes are paid once for each rank:
    // cores are shared.
    CostRow{"shm", "one_shot", on_one_host, 0, 110 * ns, 48 * ps, 48 * ps, 0, shared_memory},
    CostRow{"shm", "one_shot", oversubscribed, 0, 700 * ns, 11 * ps, 11 * ps, 0, shared_memory},
    CostRow{"shm", "swapped", on_one_host, 0, 90 * ns, 25 * ps, 25 * ps, 0, shared_memory},
    CostRow{"shm", "swapped", oversubscribed, 0, 700 * ns, 50 * ps, 50 * ps, 0, shared_memory},
    CostRow{"shm", "sharing", on_one_host, 0, 700 * ns, 60 * ps, 60 * ps, 0, shared_memory},
    CostRow{"shm", "sharing", oversubscribed, 0, 740 * ns, 34 * ps, 34 * ps, 0, shared_memory},
    CostRow{"shm", "two_shot", on_one_host, 0, 220 * ns, 36 * ps, 36 * ps, 0, shared_memory},
    CostRow{"shm", "two_shot", oversubscribed, 0, 1400 * ns, 30 * ps, 30 * ps, 0, shared_memory},
    CostRow{"shm", "slots", on_one_host, 0, 100 * ns, 40 * ps, 37 * ps, 0, shared_memory},
    CostRow{"shm", "slots", oversubscribed, 0, 700 * ns, 45 * ps, 55 * ps, 0, shared_memory},
    CostRow{"shm", "messages", on_one_host, 100 * ns, 150 * ns, 60 * ps, 60 * ps, 0, shared_memory},
    CostRow{"shm", "messages", oversubscribed, 100 * ns, 1000 * ns, 60 * ps, 110 * ps, 0,
            shared_memory},
    CostRow{"hierarchical", "hierarchical", on_one_host, 0, 0, 0, 0, 0, composed},
    CostRow{"cuda_p2p", "one_shot", on_one_host, 6 * us, 0, 0, 0, 0.7, peer_kernels},
    CostRow{"cuda_p2p", "two_shot", on_one_host, 11 * us, 0, 0, 0, 0.7, peer_kernels},
    CostRow{"cuda_p2p", "windows", on_one_host, 6 * us, 0, 0, 0, 0.7, peer_windows},
    CostRow{"cuda_p2p", "hierarchical_nccl", on_one_host, 0, 0, 0, 0, 0, composed_on_gpus},
    CostRow{"cuda_p2p", "hierarchical_staged", on_one_host, 0, 0, 0, 0, 0, composed_on_gpus},
    CostRow{"nccl", "low_latency", on_one_host, 20 * us, 1.7 * us, 0, 0, 0.2, nccl_figures},
    CostRow{"nccl", "nccl", on_one_host, 30 * us, 4 * us, 0, 0, 0.9, nccl_figures},
    CostRow{"nccl", "nccl", several_hosts, 30 * us, 10 * us, 0, 0, 0.9, nccl_network},
    CostRow{"staged", "staged", on_one_host, 40 * us, 0, 100 * ps, 100 * ps, 0, engine_copies},
};

}  // namespace cost_parts

using cost_parts::cost_table;

/// The rows of one method, found when hymn is compiled: what has none does not compile.
class MethodCost {
 public:
  consteval MethodCost(std::string_view path, std::string_view method) {
    const auto is_of_method = [&](const CostRow& row) {
      return row.path == path && row.method == method;
    };
    const auto first = std::find_if(cost_table.begin(), cost_table.end(), is_of_method);
    if (first == cost_table.end()) throw std::invalid_argument("no such rows");
    rows_ = {first, std::find_if_not(first, cost_table.end(), is_of_method)};
  }

  /// The row of that setting, or of one host, the first, where there is none.
  const CostRow& in(CostSetting setting) const {
    const auto found = std::ranges::find(rows_, setting, &CostRow::setting);
    return found == rows_.end() ? rows_.front() : *found;
  }

 private:
  std::span<const CostRow> rows_;
};

}  // namespace hymn
