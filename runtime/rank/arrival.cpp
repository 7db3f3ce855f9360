#include "runtime/rank/arrival.hpp"

#include <unistd.h>

#include <random>

#include "base/kernel_namespace.hpp"
#include "runtime/rank/gpu_views.hpp"
#include "topology/host.hpp"

namespace hymn {
namespace {

std::uint64_t this_process() {
  // Of two processes on one host either the number differs, or (in two containers) the drawn part.
  static const std::uint64_t drawn = std::uint64_t{std::random_device()()} << 32;
  return drawn ^ static_cast<std::uint64_t>(getpid());
}

}  // namespace

Arrival Arrival::of_this_rank(const Config& config, const std::optional<PretendedSite>& site,
                              int rank) {
  Arrival arrival;
  if (site) {
    arrival.host_key = arrival.host_name = site->host;
    // As if it were a process of its own, so that everything travels.
    arrival.process = static_cast<std::uint64_t>(rank);
    arrival.cpus = site->cpus;
    arrival.visible_gpus = site->visible_gpus;
  } else {
    arrival.host_key = hymn::host_key();
    arrival.host_name = hymn::host_name();
    arrival.process = this_process();
    arrival.cpus = CpuSet::of_this_thread();
    // A file shows all ranks the same.
    if (config.topology_file.empty()) arrival.visible_gpus = hymn::visible_gpus();
  }
  arrival.pid = getpid();
  arrival.pid_namespace = own_namespace("pid");
  arrival.topology_file = config.topology_file;
  arrival.gpu = config.gpu;
  arrival.bind = config.bind;
  return arrival;
}

void Arrival::pack(Packer& packer) const {
  packer.text(host_key).text(host_name).number(process);
  packer.number(static_cast<std::uint64_t>(pid)).number(pid_namespace);
  packer.text(topology_file).text(gpu);
  packer.text(visible_gpus);
  packer.number(static_cast<std::uint64_t>(bind)).text(cpus.to_string());
}

Arrival Arrival::unpack(Unpacker& unpacker) {
  Arrival arrival;
  arrival.host_key = unpacker.text();
  arrival.host_name = unpacker.text();
  arrival.process = unpacker.number();
  arrival.pid = static_cast<int>(unpacker.number());
  arrival.pid_namespace = unpacker.number();
  arrival.topology_file = unpacker.text();
  arrival.gpu = unpacker.text();
  arrival.visible_gpus = unpacker.text();
  arrival.bind = static_cast<BindTo>(unpacker.number());
  arrival.cpus = CpuSet::parse(unpacker.text()).value_or(CpuSet());
  return arrival;
}

}  // namespace hymn
