#include "topology/machine_json_job.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "hymn/error.hpp"
#include "topology/read_machine.hpp"

namespace hymn {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson host_json(const std::string& name, const HostSummary& host) {
  return {{"name", name},
          {"machine", host.machine},
          {"ranks", host.ranks},
          {"packages", host.packages},
          {"numa_nodes", host.numa_nodes},
          {"cores", host.cores},
          {"crowded", host.oversubscribed},
          {"gpus", host.gpus},
          {"ranks_without_gpu", host.ranks_without_gpu},
          {"most_gpu_sharers", host.most_sharers},
          {"worst_gpu_link", to_string(host.worst_link)},
          {"least_gpu_bandwidth", host.least_bandwidth},
          {"all_gpu_peers", host.all_peers}};
}

OrderedJson place_json(const RankPlace& place) {
  return {{"rank", place.rank},
          {"local_rank", place.local_rank},
          {"package", place.package},
          {"numa", place.numa},
          {"cpus", place.cpus.to_string()},
          {"gpu", place.gpu},
          {"gpu_sharers", place.gpu_sharers},
          {"core_sharers", place.core_sharers}};
}

RankPlace place_from(const OrderedJson& json) {
  RankPlace place;
  place.rank = json.at("rank");
  place.local_rank = json.at("local_rank");
  place.package = json.at("package");
  place.numa = json.at("numa");
  place.cpus = CpuSet::parse(json.at("cpus").get<std::string>()).value();
  place.gpu = json.at("gpu");
  place.gpu_sharers = json.at("gpu_sharers");
  place.core_sharers = json.at("core_sharers");
  return place;
}

}  // namespace

std::string places_to_json(const std::vector<RankPlace>& places) {
  OrderedJson json = OrderedJson::array();
  for (const RankPlace& place : places) json.push_back(place_json(place));
  return json.dump();
}

std::vector<RankPlace> places_from_json(const std::string& text) {
  try {
    std::vector<RankPlace> places;
    for (const OrderedJson& json : OrderedJson::parse(text)) places.push_back(place_from(json));
    return places;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::internal,
                fmt::format("the placement sent by another rank cannot be read: {}", error.what()));
  }
}

std::string job_map_to_json(const JobMap& map) {
  OrderedJson json = {{"rank", map.place().rank},
                      {"ranks", map.world.size},
                      {"host", map.host},
                      {"hosts", OrderedJson::array()},
                      {"machines", OrderedJson::array()},
                      {"places", OrderedJson::array()}};
  for (std::size_t host = 0; host < map.world.hosts.size(); ++host)
    json["hosts"].push_back(host_json(map.host_names[host], map.world.hosts[host]));
  for (const auto& machine : map.machines)
    json["machines"].push_back(OrderedJson::parse(to_json(*machine)));
  for (const RankPlace& place : map.places) json["places"].push_back(place_json(place));
  // A host's name may be no UTF-8, which is all that JSON can hold.
  return json.dump(2, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
}

}  // namespace hymn
