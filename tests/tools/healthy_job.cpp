#include "tests/tools/healthy_job.hpp"

#include "tests/support/machines.hpp"

namespace hymn::test {
namespace {

constexpr std::uint64_t gib = std::uint64_t{1} << 30;

HostFacts healthy_host(int number) {
  HostFacts host;
  host.name = "node" + std::to_string(number);
  host.machine = make_box({.packages = 2, .cores = 4, .gpus = 1});
  host.machine.memory = {.total_bytes = 64 * gib,
                         .available_bytes = 60 * gib,
                         .cgroup_max_bytes = std::nullopt,
                         .cgroup_used_bytes = 0,
                         .shm_total_bytes = 32 * gib,
                         .shm_free_bytes = 32 * gib,
                         .huge_page_bytes = 2 << 20,
                         .huge_pages_free = 0,
                         .transparent_huge_pages = "madvise"};
  host.shm_bytes = 16 << 20;
  const std::string address = "10.0.0." + std::to_string(number + 1);
  host.interfaces = {
      {.name = "lo", .up = true, .loopback = true, .addresses = {"127.0.0.1", "::1"}},
      {.name = "eth0", .up = true, .loopback = false, .addresses = {address, "fe80::1"}}};
  host.name_addresses = {address};
  host.driver_version = "580.95.05";
  host.cuda_driver = 13000;
  host.cuda_runtime = 13000;
  host.nccl = 22809;
  for (int from : {0, 1})
    for (int to : {0, 1}) host.copies.push_back({.from = from, .to = to, .problem = ""});
  return host;
}

RankFacts healthy_rank(int rank, int host, const CpuSet& cpus) {
  RankFacts facts;
  facts.rank = rank;
  facts.host = host;
  facts.hymn_version = "1.2.3";
  facts.mpi_library = "Open MPI v4.1.4";
  facts.environment = {{"NCCL_DEBUG", "WARN"}};
  facts.cpus = cpus;
  facts.limits = {
      .open_files = 1 << 20, .processes = 1 << 20, .locked_memory = 64 * gib, .core_file = 0};
  facts.segment_bytes = 64 << 20;
  const std::string name = "node" + std::to_string(host);
  facts.gpus = {{.id = "GPU-0-of-" + name, .name = "GPU"},
                {.id = "GPU-1-of-" + name, .name = "GPU"}};
  facts.used_gpu = facts.gpus[static_cast<std::size_t>(rank % 2)].id;
  return facts;
}

}  // namespace

JobFacts healthy_job() {
  JobFacts job;
  job.segment_bytes = 64 << 20;
  for (int host : {0, 1}) {
    job.hosts.push_back(healthy_host(host));
    for (int local : {0, 1})
      job.ranks.push_back(
          healthy_rank(2 * host + local, host, CpuSet::range(4 * local, 4 * local + 3)));
  }
  return job;
}

}  // namespace hymn::test
