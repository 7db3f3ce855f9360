// `hymn topo`: reads, and shows as text, JSON or picture.
#include "tools/topo/command.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/config.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/launched.hpp"
#include "tools/pictures.hpp"
#include "tools/topo/job.hpp"
#include "tools/topo/png.hpp"
#include "tools/topo/text.hpp"
#include "tools/write_file.hpp"
#include "topology/read_machine.hpp"

namespace hymn {

namespace {

void check_arguments(const TopoArguments& arguments) {
  if (!arguments.file.empty() && !arguments.synthetic.empty())
    throw BadArguments("--xml and --synthetic both name a machine; give one of them");
  const int to_output =
      (arguments.json ? 1 : 0) + (arguments.svg == "-" ? 1 : 0) + (arguments.png == "-" ? 1 : 0);
  if (to_output > 1)
    throw BadArguments("only one of --json, --svg - and --png - can have the standard output");
}

// Whether a machine is to be shown as it would be used, not the job that runs.
bool is_imagined(const TopoArguments& arguments) {
  return !arguments.file.empty() || !arguments.synthetic.empty() || arguments.hosts > 0 ||
         arguments.ranks >= 0;
}

MachineSource this_machine() {
  const std::string file = Config::from_environment().topology_file;
  return {
      std::make_shared<const Machine>(file.empty() ? read_this_machine() : read_machine_file(file)),
      1};
}

MachineSource source_of(const TopoArguments& arguments) {
  MachineSource source = !arguments.file.empty() ? machine_from_file(arguments.file)
                         : !arguments.synthetic.empty()
                             ? machine_from_synthetic(arguments.synthetic)
                             : this_machine();
  if (arguments.hosts > 0) source.hosts = arguments.hosts;
  return source;
}

void show(const TopoJob& job, const TopoArguments& arguments) {
  const bool picture = !arguments.svg.empty() || !arguments.png.empty();
  if (picture) {
    const std::string svg = pictures().topo_svg(job.view);
    if (!arguments.svg.empty()) write_file(arguments.svg, svg);
    if (!arguments.png.empty()) write_file(arguments.png, png_of(svg));
  }
  if (arguments.json) fmt::print("{}", job.json);
  if (!picture && !arguments.json) fmt::print("{}", topo_text(job.view));
}

}  // namespace

void declare_topo_arguments(CLI::App& app, TopoArguments& arguments) {
  app.add_option("--xml", arguments.file,
                 "another machine: hwloc's XML or hymn's JSON; FILE:N is N such hosts")
      ->option_text("FILE[:N]");
  app.add_option("--synthetic", arguments.synthetic,
                 "another machine, as hwloc describes it: \"pack:2 core:8 pu:2\"")
      ->option_text("TEXT");
  app.add_option("--hosts", arguments.hosts, "show that many such hosts")
      ->check(CLI::Range(1, most_hosts));
  app.add_option("--ranks", arguments.ranks, "place that many ranks on each host")
      ->check(CLI::Range(0, most_ranks_per_host));
  app.add_option("--svg", arguments.svg, "write a picture; - is the standard output")
      ->option_text("FILE");
  app.add_option("--png", arguments.png, "the same as PNG")->option_text("FILE");
  app.add_flag("--json", arguments.json, "print JSON in place of text");
}

int topo_command(const TopoArguments& arguments) {
  check_arguments(arguments);
  if (is_imagined(arguments) || !is_launched()) {
    if (speaks_for_all())
      show(imagine_job(source_of(arguments), std::max(arguments.ranks, 0)), arguments);
    return 0;
  }
  World world;
  const TopoJob job = job_of_world(world);
  const bool first = world.rank() == 0;
  // Whatever goes wrong from here on concerns this rank alone: MPI is to end as usual.
  world.destroy();
  if (first) show(job, arguments);
  return 0;
}

}  // namespace hymn
