#include "runtime/world/world_meeting.hpp"

#include <fmt/format.h>

#include <random>

#include "hymn/settings.hpp"
#include "runtime/world/tuning_library.hpp"
#include "topology/affinity.hpp"

namespace hymn::detail {
namespace {

// Of the world's exchange.
constexpr std::uint64_t tag_meet = 1;

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

}  // namespace

// Ranks that would choose differently must not start.
void WorldMeeting::check_settings(int rank, Unpacker& unpacker) const {
  auto agree = [&](std::string_view what, const std::string& here, const std::string& there) {
    if (here != there)
      throw ConfigError(
          fmt::format("{} is '{}' here but '{}' on rank {}", what, here, there, rank),
          {.rank = world_.rank(), .remedy = "start all ranks with the same settings"});
  };
  agree("the version of hymn", version(), unpacker.text());
  agree("HYMN_PATH", world_.settings.path.text(), unpacker.text());
  agree("HYMN_ALGO", world_.settings.algo.text(), unpacker.text());
  agree("HYMN_REPRODUCIBLE", std::string(to_string(world_.settings.reproducibility)),
        unpacker.text());
  agree("HYMN_CONTROL", world_.settings.config.control ? "1" : "0", unpacker.text());
  agree("HYMN_CHECKS", std::string(to_string(world_.settings.checks)), unpacker.text());
  agree("HYMN_P2P_COMPAT", std::string(to_string(world_.settings.config.p2p_compat)),
        unpacker.text());
  agree("HYMN_CHUNK_LIMIT", std::to_string(world_.settings.config.chunk_limit),
        std::to_string(unpacker.number()));
}

WorldMet WorldMeeting::hold(const std::string& secret) {
  const std::vector<int> all = world_.peers.all_ranks();
  const Patience patience =
      world_.making_patience("making the world", world_.settings.init_limit(), all);
  const MachineReader read = [this] {
    const auto& site = world_.settings.site;
    const bool pretends = site && site->machine != nullptr;
    return pretends ? KnownMachine::of(site->machine)
                    : known_machine(world_.settings.config.topology_file);
  };
  const std::shared_ptr<const FakeJob>& fake = world_.settings.fake;
  const bool leads = world_.rank() == 0 || fake != nullptr;
  const TuningFile tuning = leads ? find_tuning(read) : TuningFile();
  const auto words = all_gather(exchange_, all, tag_meet, own_words(tuning, secret), patience);
  const TuningFile found = this->read(words);
  if (fake != nullptr) imagine_others(*fake);
  get_to_know();
  met_.job = fake != nullptr ? fake->map_for(world_.rank())
                             : map_job(exchange_, arrivals_, read, patience);
  world_.oversubscribed =
      met_.job.world.hosts[static_cast<std::size_t>(met_.job.host)].oversubscribed;
  bind_caller();
  met_.helper_cpus = helper_cpus();
  use_tuning(found);
  return std::move(met_);
}

void WorldMeeting::imagine_others(const FakeJob& fake) {
  for (int rank = 0; rank < world_.settings.size; ++rank)
    if (rank != world_.rank()) arrivals_[static_cast<std::size_t>(rank)] = fake.arrival_of(rank);
}

Bytes WorldMeeting::own_words(const TuningFile& file, const std::string& secret) const {
  const WorldSettings& settings = world_.settings;
  Packer packer;
  packer.text(version()).text(settings.path.text()).text(settings.algo.text());
  packer.text(to_string(settings.reproducibility)).text(settings.config.control ? "1" : "0");
  packer.text(to_string(settings.checks)).text(to_string(settings.config.p2p_compat));
  packer.number(settings.config.chunk_limit);
  packer.text(file.path).text(file.text).text(file.library);
  packer.number(settings.rank == 0 ? random_number() : 0);
  packer.text(secret);
  Arrival::of_this_rank(settings.config, settings.site, settings.rank).pack(packer);
  return packer.packed();
}

WorldMeeting::TuningFile WorldMeeting::read(std::span<const Bytes> words) {
  TuningFile found;
  for (int rank = 0; rank < world_.settings.size; ++rank) {
    Unpacker unpacker(words[static_cast<std::size_t>(rank)]);
    check_settings(rank, unpacker);
    TuningFile theirs{unpacker.text(), unpacker.text(), unpacker.text()};
    const std::uint64_t job = unpacker.number();
    std::string drawn = unpacker.text();
    if (rank == 0) {
      found = std::move(theirs);
      world_.recorder.set_job(job);
      secret_ = std::move(drawn);
    }
    arrivals_.push_back(Arrival::unpack(unpacker));
  }
  return found;
}

// The file is rank 0's affair: others may see another file system. It need not be there.
WorldMeeting::TuningFile WorldMeeting::find_tuning(const MachineReader& read) const {
  if (world_.settings.config.tuning == "off") return {};
  TuningFile file{world_.settings.config.tuning, "", tuning_library()};
  try {
    if (file.path.empty()) file.path = tuning_file_for(read()->fingerprint);
  } catch (const std::exception&) {
    return {};  // a machine that cannot be read is told of when all have met
  }
  if (file.path.empty()) return {};
  try {
    if (auto text = read_tuning_text(file.path))
      file.text = std::move(*text);
    else if (!world_.settings.config.tuning.empty())
      warn_of_tuning(fmt::format("HYMN_TUNING names {}, which does not exist", file.path));
  } catch (const Error& error) {
    warn_of_tuning(error.problem());
  }
  return file;
}

void WorldMeeting::use_tuning(const TuningFile& file) {
  if (file.text.empty()) return;
  std::vector<std::string> fingerprints;
  for (const auto& machine : met_.job.machines) fingerprints.push_back(fingerprint(*machine));
  TuningChoice choice = choose_tuning(file.text, file.path, fingerprints, file.library);
  met_.tuning = std::move(choice.table);
  if (world_.rank() == 0 && !choice.problem.empty()) warn_of_tuning(choice.problem);
}

void WorldMeeting::warn_of_tuning(const std::string& problem) const {
  if (is_first_time(problem)) world_.logger.warning(fmt::format("{}; it is ignored", problem));
}

void WorldMeeting::get_to_know() {
  const Arrival& own = arrivals_[static_cast<std::size_t>(world_.rank())];
  std::vector<PeerDirectory::Person> persons;
  // Threads may pretend to be on hosts of their own.
  met_.has_peers_here = world_.settings.in_one_process;
  for (const Arrival& arrival : arrivals_) {
    const bool in_sight = arrival.host_key == own.host_key && own.pid_namespace != 0 &&
                          arrival.pid_namespace == own.pid_namespace;
    persons.push_back({arrival.host_name, arrival.pid, in_sight});
    if (&arrival != &own && arrival.process == own.process) met_.has_peers_here = true;
  }
  world_.peers.meet(std::move(persons));
}

// HYMN_BIND, for the calling thread; no other thread of the application is ever touched.
void WorldMeeting::bind_caller() const {
  if (world_.settings.config.bind == BindTo::none || world_.settings.site) return;
  const CpuSet& cpus = met_.job.place().cpus;
  if (cpus == arrivals_[static_cast<std::size_t>(world_.rank())].cpus)
    world_.logger.info(
        fmt::format("HYMN_BIND={}: the thread is bound to CPUs {} already, and stays so",
                    to_string(world_.settings.config.bind), cpus.to_string()));
  else if (bind_this_thread(cpus))
    world_.logger.info(fmt::format("the thread is bound to CPUs {}", cpus.to_string()));
  else
    world_.logger.warning(
        fmt::format("HYMN_BIND={}: the kernel refuses to bind the thread to CPUs {}",
                    to_string(world_.settings.config.bind), cpus.to_string()));
}

CpuSet WorldMeeting::helper_cpus() const {
  std::vector<CpuSet> others;
  for (const RankPlace& place : met_.job.places)
    if (place.rank != world_.rank()) others.push_back(place.cpus);
  const CpuSet& granted = arrivals_[static_cast<std::size_t>(world_.rank())].cpus;
  return cpus_for_helper(met_.job.machine(), granted, met_.job.place().cpus, others);
}

}  // namespace hymn::detail
