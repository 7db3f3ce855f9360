// `hymn predict`: how long the communication of a captured program should take on machines that
// need not be here.
#include "tools/predict/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "base/config.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/names.hpp"
#include "tools/predict/forecast.hpp"
#include "tools/program_file.hpp"
#include "tools/tune/tuning_source.hpp"

namespace hymn {
namespace {

using Json = nlohmann::ordered_json;

MachineSource machines_of(const PredictArguments& arguments, const Config& config) {
  MachineSource source = machine_named(arguments.topo, arguments.synthetic, config);
  if (arguments.hosts < 0 || arguments.hosts > most_hosts)
    throw BadArguments(fmt::format("--hosts must be 1 to {}", most_hosts));
  if (arguments.hosts > 0) source.hosts = arguments.hosts;
  return source;
}

int ranks_of(const PredictArguments& arguments, const Program& program, int hosts) {
  if (arguments.ranks < 0) throw BadArguments("--ranks must be 1 or more");
  int ranks = arguments.ranks;
  if (ranks == 0)
    for (const ProgramGroup& group : program.groups)
      ranks = std::max(ranks, 1 + *std::ranges::max_element(group.ranks));
  if (ranks < 1) throw BadArguments("the program has no groups; say --ranks");
  require_imaginable(static_cast<std::size_t>(ranks), hosts);
  return ranks;
}

std::string carrier(const ForecastCall& call) {
  if (call.ranks == 1) return "nothing to carry";
  return call.path.empty() ? "no path can carry it" : call.path + " (" + call.algorithm + ")";
}

std::map<std::string, double> by_path(const Forecast& forecast) {
  std::map<std::string, double> sums;
  for (const ForecastCall& call : forecast.calls)
    if (!call.path.empty()) sums[call.path] += call.us * call.times;
  return sums;
}

std::string plain_text(const Forecast& forecast, const ImaginedPlaces& places,
                       const std::string& machine, const TuningSource& tuning) {
  std::string text = fmt::format("{} rank{} on {} host{} ({})\ntuning table: {}\n\n",
                                 places.ranks(), places.ranks() == 1 ? "" : "s", places.hosts(),
                                 places.hosts() == 1 ? "" : "s", machine, in_words(tuning));
  text += fmt::format("{:>6}  {:<32}  {:>10}  {:>6}  {:>6}  {:>9}  {}\n", "times", "call", "bytes",
                      "ranks", "hosts", "each", "carried by");
  for (const ForecastCall& call : forecast.calls)
    text += fmt::format("{:>6}  {:<32}  {:>10}  {:>6}  {:>6}  {:>9}  {}\n", call.times, call.name,
                        show_bytes(call.bytes), call.ranks, call.hosts, show_time(call.us),
                        carrier(call));
  text += fmt::format("\n{} from the first call to the last result; {} one by one\n",
                      show_time(forecast.end_us), show_time(forecast.one_by_one_us));
  for (const auto& [path, us] : by_path(forecast))
    text += fmt::format("  {:<16}  {}\n", path, show_time(us));
  return text;
}

std::string json_text(const Forecast& forecast, const ImaginedPlaces& places,
                      const std::string& machine, const TuningSource& tuning) {
  Json calls = Json::array();
  for (const ForecastCall& call : forecast.calls)
    calls.push_back({{"call", call.name},
                     {"bytes", call.bytes},
                     {"ranks", call.ranks},
                     {"hosts", call.hosts},
                     {"path", call.path},
                     {"algorithm", call.algorithm},
                     {"us", call.us},
                     {"times", call.times}});
  const Json json{{"ranks", places.ranks()},
                  {"hosts", places.hosts()},
                  {"machine", {{"source", machine}, {"fingerprint", tuning.machine}}},
                  {"tuning", in_words(tuning)},
                  {"calls", std::move(calls)},
                  {"end_us", forecast.end_us},
                  {"one_by_one_us", forecast.one_by_one_us},
                  {"by_path_us", by_path(forecast)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void declare_predict_arguments(CLI::App& app, PredictArguments& arguments) {
  app.add_option("program", arguments.program, "a captured program as JSON, of one rank")
      ->option_text("PROGRAM.json")
      ->required();
  app.add_option("--ranks", arguments.ranks, "of the job; 0: as the program's groups need")
      ->capture_default_str();
  declare_machine(app, arguments.topo, arguments.synthetic);
  app.add_option("--hosts", arguments.hosts, "so many such machines");
  app.add_flag("--round-robin", arguments.round_robin,
               "ranks are given to hosts in turn, not a block to each");
  app.add_flag("--gpus", arguments.gpus, "the arrays are in the memory of the ranks' GPUs");
  app.add_flag("--json", arguments.json, "print an object");
}

std::string predict_text(const PredictArguments& arguments) {
  const Config config = Config::from_environment();
  const Program program = read_program(arguments.program);
  const MachineSource source = machines_of(arguments, config);
  ImaginedPlaces places(source, ranks_of(arguments, program, source.hosts),
                        arguments.round_robin ? RankOrder::round_robin : RankOrder::block);
  const TuningSource tuning = tuning_source(config, *source.machine);
  PlanTask rest;
  rest.query.memory = arguments.gpus ? MemoryKind::device : MemoryKind::host;
  rest.context = plan_context(config, source, tuning);
  const Forecast told = forecast(program, places, rest);
  const std::string machine = !arguments.topo.empty() ? arguments.topo : source.machine->source;
  return arguments.json ? json_text(told, places, machine, tuning)
                        : plain_text(told, places, machine, tuning);
}

}  // namespace hymn
