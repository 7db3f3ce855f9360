#include "tools/doctor/wire.hpp"

#include <nlohmann/json.hpp>

#include "topology/read_machine.hpp"

template <>
struct nlohmann::adl_serializer<hymn::CpuSet> {
  static void to_json(json& text, const hymn::CpuSet& cpus) { text = cpus.to_string(); }
  static void from_json(const json& text, hymn::CpuSet& cpus) {
    cpus = hymn::CpuSet::parse(text.get<std::string>()).value_or(hymn::CpuSet());
  }
};

template <>
struct nlohmann::adl_serializer<hymn::Machine> {
  static void to_json(json& text, const hymn::Machine& machine) { text = hymn::to_json(machine); }
  static void from_json(const json& text, hymn::Machine& machine) {
    machine = hymn::machine_from_json(text.get<std::string>(), "a rank's answer");
  }
};

namespace hymn {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(VisibleGpu, id, name)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResourceLimits, open_files, processes, locked_memory, core_file)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StaleFiles, count, bytes, shm_bytes, examples)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NetworkInterface, name, up, loopback, addresses)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(GpuCopy, from, to, direct, problem, right)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RankFacts, rank, host, hymn_version, mpi_library,
                                   settings_problem, wanted_level, granted_level,
                                   wants_progress_thread, environment, cpus, limits, segment_bytes,
                                   segment_problem, gpus, hidden_gpus, used_gpu, world_problem,
                                   incomplete)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(HostFacts, name, machine, shm_bytes, shm_problem, stale,
                                   interfaces, name_addresses, rdma_devices, driver_version,
                                   cuda_driver, cuda_runtime, nccl, copies, clock)

namespace {

// What comes from outside, such as a value in the environment, need not be UTF-8.
std::string wire_text(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace

std::string to_wire(const RankFacts& facts) { return wire_text(facts); }
std::string to_wire(const HostFacts& facts) { return wire_text(facts); }

RankFacts rank_from_wire(const std::string& text) {
  return nlohmann::json::parse(text).get<RankFacts>();
}

HostFacts host_from_wire(const std::string& text) {
  return nlohmann::json::parse(text).get<HostFacts>();
}

}  // namespace hymn
