// `hymn explain`: imagines a job, asks the planner size by size, and prints what it says.
#include "tools/explain/command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <nlohmann/json.hpp>

#include "collectives/plan.hpp"
#include "collectives/reduce/reducer.hpp"
#include "collectives/validate.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/bench/cases.hpp"
#include "tools/explain/plan.hpp"
#include "tools/machine_source.hpp"
#include "tools/names.hpp"
#include "tools/size_option.hpp"
#include "tools/tune/tuning_source.hpp"

namespace hymn {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t largest_explained = std::size_t{1} << 44;

std::vector<std::string_view> collective_names() {
  std::vector<std::string_view> names;
  for (const BenchCase& bench_case : bench_cases())
    if (is_collective(bench_case.type)) names.push_back(bench_case.name);
  return names;
}

int ranks_of(const ExplainArguments& arguments, const MachineSource& source) {
  if (arguments.ranks < 0) throw BadArguments("--ranks must be 1 or more");
  const Machine& machine = *source.machine;
  const std::size_t each =
      arguments.gpus && !machine.gpus.empty() ? machine.gpus.size() : machine.cores.size();
  const auto ranks = arguments.ranks > 0
                         ? static_cast<std::size_t>(arguments.ranks)
                         : std::max<std::size_t>(each, 1) * static_cast<std::size_t>(source.hosts);
  require_imaginable(ranks, source.hosts);
  return static_cast<int>(ranks);
}

// As even as can be, so that hosts come in two kinds at most. Hosts without ranks are left out.
GroupLayout layout_of(const MachineSource& source, int ranks) {
  GroupLayout layout;
  layout.size = ranks;
  const int hosts = std::min(source.hosts, ranks);
  std::size_t counted = 0;
  HostSummary summary;
  for (int host = 0; host < hosts; ++host) {
    const std::size_t here = even_slice(static_cast<std::size_t>(ranks), host, hosts).count;
    if (here != counted) {
      const auto records = spread_ranks(*source.machine, static_cast<int>(here));
      summary = summarise(*source.machine, 0, place_on_host(*source.machine, records));
      counted = here;
    }
    layout.hosts.push_back(summary);
  }
  return layout;
}

void check(const ExplainArguments& arguments, const PlanQuery& query) {
  if (arguments.min_bytes == 0 || arguments.max_bytes < arguments.min_bytes ||
      arguments.max_bytes > largest_explained)
    throw BadArguments(fmt::format("--min {} and --max {}: 0 < min <= max <= 16T is needed",
                                   arguments.min_bytes, arguments.max_bytes));
  if (!reduces(query.type)) return;
  if (const std::string reason = why_undefined(query.type, query.op); !reason.empty())
    throw BadArguments(
        fmt::format("{} of {}: {}", to_string(query.type), to_string(query.op), reason));
  const std::string reason = refusal(query.dtype, query.op);
  if (!reason.empty())
    throw BadArguments(
        fmt::format("{} of {}: {}", to_string(query.op), to_string(query.dtype), reason));
}

std::string times_text(const PlanOption& option) {
  const std::string first = show_time(option.first_us);
  const std::string last = show_time(option.last_us);
  return first == last ? first : first + " to " + last;
}

std::string name_text(const PlanOption& option) {
  return fmt::format("{} ({}){}", option.path, option.algorithm,
                     option.can_run && !option.is_open() ? "*" : "");
}

std::string choice_text(const PlanRange& range, int choice) {
  if (choice < 0) return "nothing: no path of this build can carry it";
  const PlanOption& option = range.options[static_cast<std::size_t>(choice)];
  return fmt::format("{}: {} ({})", name_text(option), times_text(option), option.source);
}

std::string why_not_taken(const PlanRange& range, const PlanOption& option) {
  if (!option.can_run) return option.reason;
  const auto is_settled = [&range](int choice) {
    return choice >= 0 && range.options[static_cast<std::size_t>(choice)].is_settled;
  };
  const bool is_outranked =
      !option.is_settled && (is_settled(range.build) || is_settled(range.planned));
  return fmt::format("{}: {}", is_outranked ? "stands behind" : "slower", times_text(option));
}

/// Those that were not taken, those with one reason together.
std::vector<std::pair<std::string, std::string>> names_and_reasons(const PlanRange& range) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (int i = 0; i < static_cast<int>(range.options.size()); ++i) {
    if (i == range.build || i == range.planned) continue;
    const PlanOption& option = range.options[static_cast<std::size_t>(i)];
    const std::string reason = why_not_taken(range, option);
    const auto same = std::find_if(lines.begin(), lines.end(),
                                   [&](const auto& line) { return line.second == reason; });
    if (same == lines.end())
      lines.emplace_back(name_text(option), reason);
    else
      same->first += ", " + name_text(option);
  }
  return lines;
}

std::string range_text(const PlanRange& range) {
  std::string text = "\n";
  if (range.first_bytes > 0)
    text += show_bytes(range.first_bytes) +
            (range.first_bytes == range.last_bytes ? "" : " to " + show_bytes(range.last_bytes)) +
            "\n";
  text += fmt::format("  this build takes  {}\n", choice_text(range, range.build));
  if (range.planned != range.build)
    text += fmt::format("  planned best      {}\n", choice_text(range, range.planned));
  std::string_view heading = "not taken";
  for (const auto& [names, reason] : names_and_reasons(range)) {
    text += fmt::format("  {:<16}  {}: {}\n", heading, names, reason);
    heading = "";
  }
  return text;
}

/// What the asterisk stands for: a line for each reason.
std::string marks_text(const std::vector<PlanRange>& ranges) {
  std::vector<std::string> reasons;
  for (const PlanRange& range : ranges)
    for (const PlanOption& option : range.options) {
      if (!option.can_run || option.is_open()) continue;
      std::string reason = option.in_this_build ? option.held_back : "not in this build";
      if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
        reasons.push_back(std::move(reason));
    }
  return reasons.empty() ? "" : fmt::format("\n* {}\n", fmt::join(reasons, "\n* "));
}

std::string hosts_text(const GroupLayout& layout, std::string_view machine, bool gpus) {
  const int least = layout.smallest_host();
  const int most = layout.largest_host();
  const HostSummary& first = layout.hosts.front();
  std::string text =
      fmt::format("{} rank{} on {} host{} ({})", layout.size, layout.size == 1 ? "" : "s",
                  layout.hosts.size(), layout.hosts.size() == 1 ? "" : "s", machine);
  if (layout.hosts.size() > 1)
    text += least == most ? fmt::format(", {} on each", most)
                          : fmt::format(", {} to {} on each", least, most);
  text += fmt::format("; {} core{}", first.cores, first.cores == 1 ? "" : "s");
  if (gpus && first.gpus > 0)
    text += fmt::format(" and {} GPU{} in use, joined by {} at worst", first.gpus,
                        first.gpus == 1 ? "" : "s", to_string(layout.worst_gpu_link()));
  return text + (layout.oversubscribed() ? "; more ranks than cores" : "");
}

std::string plain_text(const PlanTask& task, const std::vector<PlanRange>& ranges,
                       const std::string& machine, const TuningSource& tuning) {
  const PlanQuery& query = task.query;
  std::string what{to_string(query.type)};
  if (query.type != OpType::barrier) {
    what += fmt::format(" of {}", to_string(query.dtype));
    if (reduces(query.type)) what += fmt::format(", {}", to_string(query.op));
    what += query.memory == MemoryKind::device ? ", in the memory of GPUs" : ", in host memory";
  }
  std::string text =
      fmt::format("{}\n{}\ntuning table: {}\n", what,
                  hosts_text(task.context.layout, machine, query.memory == MemoryKind::device),
                  in_words(tuning));
  for (const PlanRange& range : ranges) text += range_text(range);
  return text + marks_text(ranges);
}

Json option_json(const PlanOption& option) {
  Json json{{"path", option.path},
            {"algorithm", option.algorithm},
            {"in_this_build", option.in_this_build},
            {"can_run", option.can_run}};
  if (!option.can_run) {
    json["reason"] = option.reason;
    return json;
  }
  if (!option.held_back.empty()) json["held_back"] = option.held_back;
  json["first_us"] = option.first_us;
  json["last_us"] = option.last_us;
  json["source"] = option.source;
  return json;
}

std::string plan_json_text(const PlanTask& task, const std::vector<PlanRange>& ranges,
                           const std::string& machine, const TuningSource& tuning) {
  const auto choice = [](const PlanRange& range, int index) {
    return index < 0 ? Json(nullptr) : option_json(range.options[static_cast<std::size_t>(index)]);
  };
  Json all = Json::array();
  for (const PlanRange& range : ranges) {
    Json candidates = Json::array();
    for (const PlanOption& option : range.options) candidates.push_back(option_json(option));
    all.push_back({{"first_bytes", range.first_bytes},
                   {"last_bytes", range.last_bytes},
                   {"build", choice(range, range.build)},
                   {"planned", choice(range, range.planned)},
                   {"candidates", std::move(candidates)}});
  }
  const PlanQuery& query = task.query;
  const Json json{{"collective", to_string(query.type)},
                  {"dtype", to_string(query.dtype)},
                  {"op", reduces(query.type) ? to_string(query.op) : "none"},
                  {"memory", to_string(query.memory)},
                  {"ranks", task.context.layout.size},
                  {"hosts", task.context.layout.hosts.size()},
                  {"machine", {{"source", machine}, {"fingerprint", tuning.machine}}},
                  {"tuning", in_words(tuning)},
                  {"ranges", std::move(all)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace

void declare_explain_arguments(CLI::App& app, ExplainArguments& arguments) {
  app.add_option("collective", arguments.collective,
                 fmt::format("{}", fmt::join(collective_names(), ", ")))
      ->required();
  app.add_option("--dtype", arguments.dtype, fmt::format("{}", fmt::join(dtype_names(), ", ")))
      ->capture_default_str();
  app.add_option("--op", arguments.op, fmt::format("{}", fmt::join(op_names(), ", ")))
      ->capture_default_str();
  app.add_option("--ranks", arguments.ranks, "0: one for each GPU with --gpus, else for each core")
      ->capture_default_str();
  declare_machine(app, arguments.topo, arguments.synthetic);
  app.add_flag("--gpus", arguments.gpus, "the buffers are in the memory of the ranks' GPUs");
  app.add_flag("--threads", arguments.threads, "the ranks are threads of one process");
  add_size(app, "--min", arguments.min_bytes, "smallest size in bytes; K, M and G are understood");
  add_size(app, "--max", arguments.max_bytes, "largest size");
  app.add_flag("--json", arguments.json, "print an object");
}

std::string explain_text(const ExplainArguments& arguments) {
  const Config config = Config::from_environment();
  PlanTask task;
  const auto names = collective_names();
  task.query.type = static_cast<OpType>(
      find_bench_case(names[index_of(arguments.collective, names, "collective")])->type);
  task.query.dtype = dtype_named(arguments.dtype);
  task.query.op = op_named(arguments.op).kind();
  task.query.memory = arguments.gpus ? MemoryKind::device : MemoryKind::host;
  task.threads = arguments.threads;
  task.min_bytes = arguments.min_bytes;
  task.max_bytes = arguments.max_bytes;
  check(arguments, task.query);
  const MachineSource source = machine_named(arguments.topo, arguments.synthetic, config);
  if (task.threads && source.hosts > 1)
    throw BadArguments("--threads: threads of one process are on one host");
  const TuningSource tuning = tuning_source(config, *source.machine);
  task.context = plan_context(config, source, tuning);
  task.context.layout = layout_of(source, ranks_of(arguments, source));
  const std::vector<PlanRange> ranges = plan_ranges(task);
  const std::string machine = !arguments.topo.empty() ? arguments.topo : source.machine->source;
  return arguments.json ? plan_json_text(task, ranges, machine, tuning)
                        : plain_text(task, ranges, machine, tuning);
}

}  // namespace hymn
