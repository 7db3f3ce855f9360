#include "base/config.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/config_parse.hpp"
#include "base/interface_list.hpp"
#include "hymn/error.hpp"

namespace hymn {
namespace {

using namespace config;  // NOLINT: the values' names

std::string print_number(const std::optional<int>& number) {
  return number ? std::to_string(*number) : "";
}

struct Variable {
  std::string_view name;
  std::string_view meaning;
  void (*parse)(Config&, std::string_view name, std::string_view value);
  std::string (*print)(const Config&);
};

std::string print_timeout(Timeout timeout) {
  if (!timeout.is_set()) return "";
  if (timeout.is_none()) return "none";
  return fmt::format("{}", std::chrono::duration<double>(timeout.duration()).count());
}

const std::array variables = {
    Variable{
        "HYMN_TIMEOUT",
        "How long an operation may take, in seconds, unless its group or call says otherwise; "
        "none: for ever, as plain MPI; empty: 600 in groups whose members all have a GPU, and 1800 "
        "elsewhere.",
        [](Config& c, std::string_view n, std::string_view v) {
          c.timeout = v.empty() ? Timeout() : parse_timeout(n, v);
        },
        [](const Config& c) { return print_timeout(c.timeout); }},
    Variable{"HYMN_INIT_TIMEOUT",
             "How long creating a world or a group may take, in seconds; none: for ever; "
             "empty: as HYMN_TIMEOUT.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.init_timeout = v.empty() ? Timeout() : parse_timeout(n, v);
             },
             [](const Config& c) { return print_timeout(c.init_timeout); }},
    Variable{"HYMN_ON_FAILURE",
             "What is done about an operation that has failed: report (it is thrown where somebody "
             "waits), clean_up (its group is given up on all ranks too, even if nobody waits) or "
             "tear_down (the process then ends by SIGABRT, after its dump).",
             [](Config& c, std::string_view n, std::string_view v) {
               c.on_failure = parse_enum(n, v, failure_policies);
             },
             [](const Config& c) { return std::string(to_string(c.on_failure)); }},
    Variable{"HYMN_BLOCKING_WAIT",
             "Whether a wait with a limit of its own gives the operation and its group up when the "
             "limit passes; failures are then left to whoever waits.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.blocking_wait = parse_bool(n, v);
             },
             [](const Config& c) { return std::string(c.blocking_wait ? "1" : "0"); }},
    Variable{"HYMN_WATCHDOG_TIMEOUT",
             "When hymn's own watchdog thread has hung for so many seconds the process is ended by "
             "SIGABRT, after its dump; none: never.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.watchdog_timeout = parse_timeout(n, v);
               // It beats four times a second.
               if (!c.watchdog_timeout.is_none() &&
                   c.watchdog_timeout.duration() < std::chrono::milliseconds(500))
                 refuse(n, v, "seconds from 0.5 on, or none");
             },
             [](const Config& c) { return print_timeout(c.watchdog_timeout); }},
    Variable{"HYMN_WAIT_REPORT",
             "After how many seconds a rank that waits says once who is missing, and where that "
             "one is; 0 or none: never.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.wait_report = v == "0" ? Timeout::none() : parse_timeout(n, v);
             },
             [](const Config& c) { return print_timeout(c.wait_report); }},
    Variable{"HYMN_LOG_LEVEL", "What is written to stderr: off, error, warning, info or debug.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.log_level = parse_enum(n, v, log_levels);
             },
             [](const Config& c) { return std::string(to_string(c.log_level)); }},
    Variable{"HYMN_PROGRESS_THREAD",
             "A thread that moves asynchronous operations forward while the application computes; "
             "over MPI it needs MPI_THREAD_MULTIPLE.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.progress_thread = parse_bool(n, v);
             },
             [](const Config& c) { return std::string(c.progress_thread ? "1" : "0"); }},
    Variable{
        "HYMN_MPI_THREAD_LEVEL",
        "The level asked for when hymn initialises MPI itself: single, funneled, serialized or "
        "multiple. Empty: multiple with a progress thread, else single.",
        [](Config& c, std::string_view n, std::string_view v) {
          if (!v.empty()) c.mpi_thread_level = parse_enum(n, v, thread_levels);
        },
        [](const Config& c) {
          return c.mpi_thread_level ? std::string(to_string(*c.mpi_thread_level)) : std::string();
        }},
    Variable{"HYMN_BOOTSTRAP",
             "How the ranks of a world find each other where the program does not say: mpi, or "
             "environment (by RANK, WORLD_SIZE and what else a launcher has set, without MPI).",
             [](Config& c, std::string_view n, std::string_view v) {
               c.bootstrap = parse_enum(n, v, bootstraps);
             },
             [](const Config& c) { return std::string(to_string(c.bootstrap)); }},
    Variable{"HYMN_STORE",
             "With HYMN_BOOTSTRAP=environment: where the launcher keeps a store for its ranks, as "
             "host:port (hymn run sets it); empty: rank 0 keeps it at MASTER_ADDR:MASTER_PORT.",
             [](Config& c, std::string_view, std::string_view v) { c.store = v; },
             [](const Config& c) { return c.store; }},
    Variable{"HYMN_TOKEN",
             "The secret of that store, the same 64 hexadecimal digits on all ranks (openssl rand "
             "-hex 32); empty: none, which is allowed on the loopback only.",
             [](Config& c, std::string_view, std::string_view v) { c.token = v; },
             [](const Config& c) { return std::string(c.token.empty() ? "" : "set"); }},
    Variable{
        "HYMN_PATH",
        "The paths that may carry data, for example mpi or mpi,exchange; ^mpi: all but these; "
        "empty: all.",
        [](Config& c, std::string_view n, std::string_view v) { c.path = PathPolicy::parse(v, n); },
        [](const Config& c) { return c.path.text(); }},
    Variable{"HYMN_ALGO",
             "The algorithms that may be used, for example all_reduce_mpi; ^all_reduce_pairwise: "
             "all but these; empty: all. A collective that is not named may use any.",
             [](Config& c, std::string_view, std::string_view v) { c.algo = v; },
             [](const Config& c) { return c.algo; }},
    Variable{"HYMN_REPRODUCIBLE",
             "How far the bits of reductions stay the same: ranks (on all ranks of a call), runs "
             "(from run to run), placement (for every path and placement of ranks) or size (for "
             "every number of ranks: exact sums).",
             [](Config& c, std::string_view n, std::string_view v) {
               c.reproducibility = parse_enum(n, v, reproducibility_levels);
             },
             [](const Config& c) { return std::string(to_string(c.reproducibility)); }},
    Variable{"HYMN_TUNING",
             "The table of measured costs that `hymn tune` has written: a file, off, or empty: "
             "the one in the user's cache.",
             [](Config& c, std::string_view, std::string_view v) { c.tuning = v; },
             [](const Config& c) { return c.tuning; }},
    Variable{"HYMN_TOPOLOGY_FILE",
             "Describes the machine instead of looking at it: XML of hwloc (format 2) or hymn's "
             "JSON.",
             [](Config& c, std::string_view, std::string_view v) { c.topology_file = v; },
             [](const Config& c) { return c.topology_file; }},
    Variable{"HYMN_GPU",
             "The GPU of this rank: an index among those it can see, none, or empty: by locality.",
             [](Config& c, std::string_view n, std::string_view v) { c.gpu = parse_gpu(n, v); },
             [](const Config& c) { return c.gpu; }},
    Variable{"HYMN_BIND",
             "What the thread that makes the world is bound to: none (it is left alone), core, "
             "numa or package.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.bind = parse_enum(n, v, bind_targets);
             },
             [](const Config& c) { return std::string(to_string(c.bind)); }},
    Variable{"HYMN_RECORDER_SIZE",
             "How many of the last calls the flight recorder keeps, up to 1048576; 0: none.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.recorder_size = parse_up_to(1048576, n, v);
             },
             [](const Config& c) { return std::to_string(c.recorder_size); }},
    Variable{"HYMN_RECORDER_FRAMES",
             "How many callers the flight recorder keeps of each call, from its call site on, up "
             "to 32, which costs about a microsecond a call; 0: only the call site.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.recorder_frames = parse_up_to(32, n, v);
             },
             [](const Config& c) { return std::to_string(c.recorder_frames); }},
    Variable{
        "HYMN_RECORDER_COUNTS",
        "How many sizes of uneven blocks the flight recorder keeps of each call, of inputs and "
        "outputs together, up to 65535: Join::shadow_all needs two for each member of a group.",
        [](Config& c, std::string_view n, std::string_view v) {
          c.recorder_counts = parse_up_to(65535, n, v);
        },
        [](const Config& c) { return std::to_string(c.recorder_counts); }},
    Variable{"HYMN_RECORDER_TIMING",
             "Whether the flight recorder keeps when operations started, and how long they took.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.recorder_timing = parse_bool(n, v);
             },
             [](const Config& c) { return std::string(c.recorder_timing ? "1" : "0"); }},
    Variable{"HYMN_DUMP",
             "Where dumps of the flight recorder are written: the beginning of file names, to "
             "which the rank is added; empty: nowhere.",
             [](Config& c, std::string_view, std::string_view v) { c.dump = v; },
             [](const Config& c) { return c.dump; }},
    Variable{
        "HYMN_DUMP_FORMAT",
        "What dumps are written as: json, or torch: besides, in the folder torch beside them, as "
        "PyTorch's torchfrtrace reads them.",
        [](Config& c, std::string_view n, std::string_view v) {
          c.dump_format = parse_enum(n, v, dump_formats);
        },
        [](const Config& c) { return std::string(to_string(c.dump_format)); }},
    Variable{
        "HYMN_CONTROL",
        "Whether ranks hear of each other's failures beside MPI, by a thread and connections "
        "of their own; without it they are found by timeouts only.",
        [](Config& c, std::string_view n, std::string_view v) { c.control = parse_bool(n, v); },
        [](const Config& c) { return std::string(c.control ? "1" : "0"); }},
    Variable{"HYMN_INTERFACE",
             "The network interface of these connections between hosts: names (eth0) or networks "
             "(10.0.0.0/8), with commas; ^docker0: all but these; empty: the first that is likely "
             "to do.",
             [](Config& c, std::string_view n, std::string_view v) {
               (void)parse_interface_list(v, n);
               c.interface = v;
             },
             [](const Config& c) { return c.interface; }},
    Variable{
        "HYMN_TCP_STREAMS",
        "How many connections large messages go by between two ranks on the path tcp, from 1 to "
        "16; of two ranks the lower number counts.",
        [](Config& c, std::string_view n, std::string_view v) {
          c.tcp_streams = parse_from(1, most_tcp_streams, n, v);
        },
        [](const Config& c) { return std::to_string(c.tcp_streams); }},
    Variable{"HYMN_CHECKS",
             "Whether the collective calls of different ranks are compared: off, info (one rank is "
             "told of each call) or detail (the ranks meet before each call).",
             [](Config& c, std::string_view n, std::string_view v) {
               c.checks = parse_enum(n, v, check_levels);
             },
             [](const Config& c) { return std::string(to_string(c.checks)); }},
    Variable{
        "HYMN_NAN_CHECK",
        "Whether a NaN in what a rank sends is an error there, before anything is sent.",
        [](Config& c, std::string_view n, std::string_view v) { c.nan_check = parse_bool(n, v); },
        [](const Config& c) { return std::string(c.nan_check ? "1" : "0"); }},
    Variable{
        "HYMN_METRICS",
        "Where each rank writes what it has counted at the end of its world: the beginning of "
        "file names, to which the rank and .prom are added (or .json, if it ends so); with "
        ":10, every 10 seconds, too; empty: nowhere.",
        [](Config& c, std::string_view n, std::string_view v) { c.metrics = parse_metrics(n, v); },
        [](const Config& c) { return c.metrics.text; }},
    Variable{"HYMN_NCCL_INIT",
             "When NCCL communicators are created: lazy (at the first use of a group), eager (when "
             "the group is made) or background (begun then).",
             [](Config& c, std::string_view n, std::string_view v) {
               c.nccl.init = parse_enum(n, v, nccl_inits);
             },
             [](const Config& c) {
               return std::string(to_string(c.nccl.init.value_or(NcclInit::lazy)));
             }},
    Variable{"HYMN_NCCL_MIN_CTAS",
             "The minimum number of thread blocks (CTAs) that NCCL uses on a GPU, from 1 to 64; "
             "empty: its choice.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.nccl.min_ctas = parse_number_or_none(1, most_ctas, n, v);
             },
             [](const Config& c) { return print_number(c.nccl.min_ctas); }},
    Variable{"HYMN_NCCL_MAX_CTAS",
             "The maximum number of these thread blocks (CTAs); empty: NCCL's choice.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.nccl.max_ctas = parse_number_or_none(1, most_ctas, n, v);
             },
             [](const Config& c) { return print_number(c.nccl.max_ctas); }},
    Variable{
        "HYMN_NCCL_CGA_SIZE",
        "How many thread blocks NCCL puts into a cluster (CGA), from 0 to 8; empty: its choice.",
        [](Config& c, std::string_view n, std::string_view v) {
          c.nccl.cga_size = parse_number_or_none(0, most_in_cluster, n, v);
        },
        [](const Config& c) { return print_number(c.nccl.cga_size); }},
    Variable{"HYMN_NCCL_NET",
             "The network that NCCL uses: Socket, IB, or the name of a plugin; empty: its choice.",
             [](Config& c, std::string_view, std::string_view v) { c.nccl.net_name = v; },
             [](const Config& c) { return c.nccl.net_name; }},
    Variable{
        "HYMN_NCCL_BLOCKING",
        "Whether calls of NCCL may block; its communicators are made beside the caller anyway.",
        [](Config& c, std::string_view n, std::string_view v) {
          c.nccl.blocking = parse_bool(n, v);
        },
        [](const Config& c) { return std::string(c.nccl.blocking.value_or(false) ? "1" : "0"); }},
    Variable{"HYMN_NCCL_REDUCE_IN_FLOAT32",
             "Whether float16 and bfloat16 are reduced through NCCL in float32, and rounded once.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.nccl.reduce_in_float32 = parse_bool(n, v);
             },
             [](const Config& c) {
               return std::string(c.nccl.reduce_in_float32.value_or(false) ? "1" : "0");
             }},
    Variable{
        "HYMN_STREAM_PRIORITY",
        "The priority of the stream on a GPU for operations that are given none: normal or "
        "high.",
        [](Config& c, std::string_view n, std::string_view v) {
          c.high_priority_stream = parse_priority(n, v);
        },
        [](const Config& c) { return std::string(c.high_priority_stream ? "high" : "normal"); }},
    Variable{
        "HYMN_P2P_COMPAT",
        "By whose rules operations go through the peer memory of GPUs: none (hymn's own) or c10d "
        "(those of PyTorch's all_reduce inside a node: sums of bfloat16 up to 10 MiB, always).",
        [](Config& c, std::string_view n, std::string_view v) {
          c.p2p_compat = parse_enum(n, v, p2p_compats);
        },
        [](const Config& c) { return std::string(to_string(c.p2p_compat)); }},
    Variable{
        "HYMN_CHUNK_LIMIT",
        "For tests: the most elements given to one MPI call, so that the code for counts above "
        "2^31 runs on small data.",
        [](Config& c, std::string_view n, std::string_view v) {
          c.chunk_limit = parse_chunk_limit(n, v);
        },
        [](const Config& c) { return std::to_string(c.chunk_limit); }},
    Variable{
        "HYMN_PRELOAD",
        "What libhymn-preload.so does in an MPI program: on (carries collectives where that is "
        "quicker, and records calls), always (carries all that it can), watch (records calls) "
        "or off.",
        [](Config& c, std::string_view n, std::string_view v) {
          c.preload = parse_enum(n, v, preload_uses);
        },
        [](const Config& c) { return std::string(to_string(c.preload)); }},
    Variable{"HYMN_PRELOAD_REPORT",
             "Whether rank 0 prints at MPI_Finalize what calls were made, and who carried them.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.preload_report = parse_bool(n, v);
             },
             [](const Config& c) { return std::string(c.preload_report ? "1" : "0"); }},
    Variable{"HYMN_PRELOAD_BITS",
             "Whose floating-point sums and products such a program gets: hymn (the same for every "
             "placement) or mpi.",
             [](Config& c, std::string_view n, std::string_view v) {
               c.preload_bits = parse_enum(n, v, preload_bits);
             },
             [](const Config& c) { return std::string(to_string(c.preload_bits)); }},
};

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

[[noreturn]] void refuse_unknown(std::string_view name) {
  const auto nearest =
      std::min_element(variables.begin(), variables.end(), [&](const auto& a, const auto& b) {
        return edit_distance(name, a.name) < edit_distance(name, b.name);
      });
  throw ConfigError(fmt::format("there is no variable {}", name),
                    {.remedy = fmt::format("perhaps {} was meant; `hymn info` lists all of them",
                                           nearest->name)});
}

}  // namespace

Config Config::parse(const std::vector<std::string>& environment) {
  Config config;
  for (const std::string& entry : environment) {
    if (!entry.starts_with("HYMN_")) continue;
    const std::size_t equals = entry.find('=');
    const std::string_view name = std::string_view(entry).substr(0, equals);
    const std::string_view value =
        equals == std::string::npos ? "" : std::string_view(entry).substr(equals + 1);
    const auto variable = std::find_if(variables.begin(), variables.end(),
                                       [&](const Variable& v) { return v.name == name; });
    if (variable == variables.end()) refuse_unknown(name);
    variable->parse(config, name, value);
  }
  return config;
}

ThreadLevel Config::wanted_thread_level(bool own_thread) const {
  return mpi_thread_level.value_or(own_thread ? ThreadLevel::multiple : ThreadLevel::single);
}

Config Config::from_environment() {
  std::vector<std::string> entries;
  for (char** entry = environ; *entry != nullptr; ++entry) entries.emplace_back(*entry);
  return parse(entries);
}

std::vector<Setting> Config::describe() const {
  const Config defaults;
  std::vector<Setting> described;
  for (const Variable& variable : variables) {
    described.push_back(
        {.name = std::string(variable.name),
         .value = variable.print(*this),
         .default_value = variable.print(defaults),
         .meaning = std::string(variable.meaning),
         .from_environment = ::getenv(std::string(variable.name).c_str()) != nullptr});
  }
  return described;
}

}  // namespace hymn
