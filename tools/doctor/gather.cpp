#include "tools/doctor/gather.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

#include "hymn/error.hpp"
#include "hymn/settings.hpp"
#include "tools/doctor/gpu.hpp"
#include "tools/doctor/judge.hpp"
#include "tools/doctor/probes.hpp"
#include "topology/gpu_probe.hpp"
#include "topology/host.hpp"
#include "topology/read_machine.hpp"

namespace hymn {
namespace {

// Open MPI's shared-memory transport makes a file of 4 MiB for each rank; the rest is for what
// NCCL, UCX and semaphores put there.
constexpr std::uint64_t shm_bytes_per_rank = std::uint64_t{8} << 20;

// A part that fails must not keep this rank from the collective calls that follow.
template <class Look>
void attempt(const char* what, RankFacts& facts, Look&& look) {
  try {
    look();
  } catch (const std::exception& error) {
    facts.incomplete += fmt::format("{}{} could not be inspected: {}",
                                    facts.incomplete.empty() ? "" : "; ", what, error.what());
  }
}

std::string mpi_library() {
  const auto facts = build_facts();
  const auto fact = std::find_if(facts.begin(), facts.end(),
                                 [](const BuildFact& f) { return f.name == "MPI library"; });
  return fact == facts.end() ? "unknown" : fact->value;
}

void gather_settings(RankFacts& facts) {
  try {
    const Config config = Config::from_environment();
    facts.wanted_level = config.wanted_thread_level(config.progress_thread);
    facts.wants_progress_thread = config.progress_thread;
  } catch (const ConfigError& error) {
    facts.settings_problem = error.problem() + " (" + error.context().remedy + ")";
  }
}

// What remains to be said when the machine cannot be read.
Machine unknown_machine() {
  Machine machine;
  machine.cpus = CpuSet::of_this_thread();
  machine.allowed_cpus = machine.cpus;
  return machine;
}

// What may be allocated to see whether it can be: the kernel kills somebody where it is too much.
// That there is too little is then found without trying.
std::uint64_t safe_bytes(std::uint64_t wanted, const MemoryLimits& memory) {
  const bool is_known = memory.total_bytes != 0 || memory.cgroup_max_bytes;
  if (is_known && wanted > memory.usable_bytes()) return 0;
  return is_known ? std::min(wanted, memory.usable_bytes() / 2) : wanted;
}

std::string temporary_folder() {
  const char* folder = std::getenv("TMPDIR");
  return folder == nullptr || *folder == '\0' ? "/tmp" : folder;
}

}  // namespace

std::string gpu_id(const Gpu& gpu) {
  if (!gpu.uuid.empty()) return gpu.uuid;
  return gpu.pci ? gpu.pci->to_string() : fmt::format("GPU {}", gpu.index);
}

RankFacts gather_rank(int rank, ThreadLevel granted) {
  RankFacts facts;
  facts.rank = rank;
  facts.granted_level = granted;
  facts.hymn_version = version();
  attempt("the settings", facts, [&] {
    facts.mpi_library = mpi_library();
    gather_settings(facts);
    for (const auto& [name, value] : environment_of_this_process())
      if (is_compared(name)) facts.environment[name] = value;
  });
  attempt("the binding", facts, [&] { facts.cpus = CpuSet::of_this_thread(); });
  facts.limits = read_limits();
  attempt("the GPUs", facts, [&] {
    const GpuInventory inventory = probe_gpus();
    for (const Gpu& gpu : inventory.gpus) facts.gpus.push_back({gpu_id(gpu), gpu.name});
    facts.hidden_gpus = inventory.hidden_gpus;
  });
  return facts;
}

HostFacts gather_host(int ranks_here, RankFacts& used) {
  HostFacts host;
  // First: the ranks have just met for it.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  host.clock = std::chrono::duration<double>(now).count();
  host.machine = unknown_machine();
  attempt("the machine", used, [&] { host.machine = read_this_machine(); });
  host.name = host_name();
  const MemoryLimits& memory = host.machine.memory;
  host.shm_bytes = safe_bytes(shm_bytes_per_rank * static_cast<std::uint64_t>(ranks_here), memory);
  if (host.shm_bytes > 0) host.shm_problem = try_file("/dev/shm", host.shm_bytes);
  attempt("stale files", used, [&] { host.stale = find_stale({.temporary = temporary_folder()}); });
  attempt("the network", used, [&] {
    host.interfaces = read_interfaces();
    host.name_addresses = read_name_addresses();
    host.rdma_devices = read_rdma_devices();
  });
  attempt("copies between GPUs", used, [&] {
    const GpuInventory inventory = probe_gpus();
    host.driver_version = inventory.driver_version;
    host.cuda_driver = inventory.cuda_driver;
    if (inventory.gpus.empty()) return;
    host.cuda_runtime = cuda_runtime_version();
    host.nccl = nccl_version();
    host.copies = try_copies();
  });
  return host;
}

void gather_segment(std::uint64_t bytes, RankFacts& facts) {
  attempt("memory", facts, [&] {
    facts.segment_bytes = safe_bytes(bytes, read_memory_limits());
    if (facts.segment_bytes > 0) facts.segment_problem = try_segment(facts.segment_bytes);
  });
}

}  // namespace hymn
