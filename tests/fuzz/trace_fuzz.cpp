// Dumps of the flight recorder that anybody may have written. Several, with an empty line between
// them, are those of one job: what is read is then judged, told and drawn.
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.hpp"
#include "tools/bad_arguments.hpp"
#include "tools/trace/dump_reader.hpp"
#include "tools/trace/files.hpp"
#include "tools/trace/perfetto.hpp"
#include "tools/trace/report.hpp"
#include "tools/trace/timeline_svg.hpp"
#include "tools/trace/verdict.hpp"

namespace {

using namespace hymn;
using hymn::fuzz::require;

std::vector<trace::Dump> dumps_in(std::string_view text) {
  std::vector<trace::Dump> dumps;
  while (!text.empty()) {
    const std::size_t end = text.find("\n\n");
    trace::ReadDump read = trace::read_dump(text.substr(0, end), "input");
    require(read.dump || !read.problem.empty(), "what is refused has a reason");
    // As large as it may be, a world only takes time here.
    constexpr int largest_world = 256;
    if (read.dump && read.dump->world_size <= largest_world) dumps.push_back(std::move(*read.dump));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  }
  return dumps;
}

bool is_json(const std::string& text) { return nlohmann::json::accept(text); }

void check(std::vector<trace::Dump> dumps) {
  trace::LoadedDumps loaded = trace::choose_dumps(std::move(dumps), "");
  const trace::Job job(std::move(loaded.dumps));
  const std::vector<trace::Finding> findings = trace::judge(job);
  for (const trace::Finding& finding : findings) {
    require(!finding.title.empty(), "a finding says something");
    for (const int rank : finding.culprits)
      require(rank >= 0 && rank < job.world_size(), "who is blamed is a rank of the job");
  }
  require(is_json(trace::report_json(job, findings, loaded.notes)), "the verdict is JSON");
  require(is_json(trace::perfetto_json(job)), "the trace is JSON");
  require(trace::timeline_svg(job, findings, 0).ends_with("</svg>\n"), "the picture is whole");
  const std::string text =
      trace::report_text(job, findings, loaded.notes) + trace::last_text(job, 3);
  for (const char c : text)
    require(c == '\n' || static_cast<unsigned char>(c) >= 0x20, "no text stirs the terminal");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::vector<trace::Dump> dumps = dumps_in(fuzz::text(data, size));
  if (dumps.empty()) return 0;
  try {
    check(std::move(dumps));
  } catch (const BadArguments& bad) {
    require(bad.what()[0] != '\0', "an error has a text");
  }
  return 0;
}
