// Brings the places of all ranks to rank 0, and imagines jobs.
#include "tools/topo/job.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "runtime/world/world_facts.hpp"
#include "tools/bad_arguments.hpp"
#include "topology/machine_json_job.hpp"
#include "topology/read_machine.hpp"

namespace hymn {

namespace {

using Json = nlohmann::ordered_json;

// The text of the first rank of each host, in order of ranks, on rank 0.
std::vector<std::string> gather_texts(World& world, const std::string& own) {
  const auto size = static_cast<std::size_t>(world.size());
  const auto length = static_cast<std::uint64_t>(own.size());
  std::vector<std::uint64_t> lengths(size);
  world.group().all_gather(view_of(length), lengths);
  std::vector<std::size_t> counts(lengths.begin(), lengths.end());
  std::size_t total = 0;
  for (const std::size_t count : counts) total += count;
  const std::vector<std::uint8_t> in(own.begin(), own.end());
  std::vector<std::uint8_t> out(world.rank() == 0 ? total : 0);
  world.group().gather(in, out, std::span<const std::size_t>(counts), 0);
  std::vector<std::string> texts;
  if (world.rank() != 0) return texts;
  auto at = out.begin();
  for (const std::size_t count : counts) {
    const auto end = at + static_cast<std::ptrdiff_t>(count);
    if (count > 0) texts.emplace_back(at, end);
    at = end;
  }
  return texts;
}

// The job's JSON with the places of all hosts' ranks, each with its host.
std::string job_json(const JobMap& map, const TopoView& view) {
  Json json = Json::parse(job_map_to_json(map));
  Json& places = json["places"] = Json::array();
  for (std::size_t host = 0; host < view.hosts.size(); ++host)
    for (Json& place : Json::parse(places_to_json(view.hosts[host].places))) {
      place["host"] = host;
      places.push_back(std::move(place));
    }
  return json.dump(2) + "\n";
}

TopoView view_of(const JobMap& map) {
  TopoView view;
  view.machines = map.machines;
  view.ranks = map.world.size;
  for (std::size_t host = 0; host < map.world.hosts.size(); ++host)
    view.hosts.push_back({map.host_names[host], map.world.hosts[host].machine, {}});
  return view;
}

}  // namespace

TopoJob job_of_world(World& world) {
  const JobMap& map = job_map_of(world);
  const bool leads = world.local_rank() == 0;
  const auto texts = gather_texts(world, leads ? places_to_json(map.places) : std::string());
  TopoJob job;
  if (world.rank() != 0) return job;
  job.view = view_of(map);
  // Hosts are in the order of their lowest ranks, as the texts are.
  for (std::size_t host = 0; host < std::min(texts.size(), job.view.hosts.size()); ++host)
    job.view.hosts[host].places = places_from_json(texts[host]);
  job.json = job_json(map, job.view);
  return job;
}

TopoJob imagine_job(const MachineSource& source, int ranks_per_host) {
  if (static_cast<std::int64_t>(source.hosts) * ranks_per_host > most_drawn_ranks)
    throw BadArguments(fmt::format("{} hosts with {} ranks each: more than {} ranks are not shown",
                                   source.hosts, ranks_per_host, most_drawn_ranks));
  const JobMap map = imagined_job(source, ranks_per_host);
  TopoJob job;
  job.view = view_of(map);
  for (std::size_t host = 0; host < job.view.hosts.size(); ++host) {
    std::vector<RankPlace>& places = job.view.hosts[host].places;
    places = map.places;
    for (RankPlace& place : places) place.rank += static_cast<int>(host) * ranks_per_host;
  }
  job.json = ranks_per_host > 0 ? job_json(map, job.view) : to_json(*source.machine);
  return job;
}

}  // namespace hymn
