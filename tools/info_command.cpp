// `hymn info`: facts about the build and the GPUs, every HYMN_* variable, and the table of measured
// costs.
#include "tools/info_command.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "hymn/settings.hpp"
#include "tools/tune/tuning_source.hpp"

namespace hymn {

namespace {

using Json = nlohmann::ordered_json;

const char* origin_of(const Setting& setting) {
  return setting.from_environment ? "environment" : "default";
}

TuningSource tuning_here() {
  const Config config = Config::from_environment();
  return tuning_source(config, machine_in_effect(config));
}

std::string info_json_text() {
  const auto object_of = [](const std::vector<BuildFact>& facts) {
    Json object = Json::object();
    for (const BuildFact& fact : facts) object[fact.name] = fact.value;
    return object;
  };
  Json all = Json::array();
  for (const Setting& setting : settings())
    all.push_back({{"name", setting.name},
                   {"value", setting.value},
                   {"default", setting.default_value},
                   {"source", origin_of(setting)},
                   {"meaning", setting.meaning}});
  const TuningSource tuning = tuning_here();
  const bool in_effect = tuning.choice.table != nullptr;
  Json table{{"machine", tuning.machine}, {"file", tuning.file}, {"in_effect", in_effect}};
  table["measured"] = in_effect ? Json(tuning.choice.table->measured) : Json(nullptr);
  table["rows"] = in_effect ? tuning.choice.table->rows.size() : 0;
  table["problem"] = tuning.choice.problem;
  const Json json{{"version", version()},
                  {"build", object_of(build_facts())},
                  {"gpus", object_of(gpu_facts())},
                  {"settings", all},
                  {"tuning", std::move(table)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

template <class Rows, class Length>
std::size_t widest(const Rows& rows, Length&& length) {
  std::size_t width = 0;
  for (const auto& row : rows) width = std::max(width, length(row));
  return width;
}

std::string lines_of(const std::vector<BuildFact>& facts) {
  const auto width = widest(facts, [](const BuildFact& fact) { return fact.name.size(); });
  std::string text;
  for (const BuildFact& fact : facts)
    text += fmt::format("  {:<{}}  {}\n", fact.name, width, fact.value);
  return text;
}

}  // namespace

std::string info_text(bool json) {
  if (json) return info_json_text();
  const auto variables = settings();
  std::string text = fmt::format("hymn {}\n\nBuild\n{}\nGPUs\n{}", version(),
                                 lines_of(build_facts()), lines_of(gpu_facts()));

  text += "\nSettings: environment variables and their values in effect\n";
  const auto width = widest(variables, [](const Setting& s) {
    return s.name.size() + std::max(s.value.size(), 1ul) + 1;
  });
  for (const Setting& setting : variables) {
    const auto assignment = fmt::format("{}={}", setting.name, setting.value);
    const auto origin = setting.from_environment
                            ? fmt::format("environment (default: {})", setting.default_value)
                            : std::string("default");
    text += fmt::format("  {:<{}}  {}\n      {}\n", assignment, width, origin, setting.meaning);
  }
  const TuningSource tuning = tuning_here();
  text += fmt::format("\nTuning table for machines of this kind ({})\n  {}\n", tuning.machine,
                      in_words(tuning));
  return text;
}

}  // namespace hymn
