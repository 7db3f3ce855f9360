// Writes the results of `hymn bench`.
#include "tools/bench/report.hpp"
#include "tools/say.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

namespace hymn {

namespace {

using Json = nlohmann::ordered_json;

// Where a report goes. Owns the file, but not the standard output.
class Sink {
 public:
  explicit Sink(std::FILE* borrowed) : file_(borrowed, [](std::FILE*) { return 0; }) {}
  explicit Sink(const std::string& path) : file_(std::fopen(path.c_str(), "w"), std::fclose) {
    if (!file_) throw BadArguments(fmt::format("--csv {}: {}", path, std::strerror(errno)));
  }
  void line(const std::string& text) {
    fmt::print(file_.get(), "{}\n", text);
    std::fflush(file_.get());
  }
  void finish() {
    if (std::ferror(file_.get()) != 0)
      throw std::runtime_error("the results could not be written completely");
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
};

std::string wrong_text(const std::optional<std::uint64_t>& wrong) {
  return wrong ? fmt::format("{}", *wrong) : "N/A";
}

// A figure in few columns: three digits that count, whatever its size.
std::string figure(double value) {
  const int decimals = value < 10 ? 3 : value < 100 ? 2 : value < 1000 ? 1 : 0;
  return fmt::format("{:.{}f}", value, decimals);
}

// ---- The table of nccl-tests: both places side by side.
// ------------------------------------------

class PlainTable : public BenchReport {
 public:
  /// `on_gpu`: with a column of what the host needs to enqueue.
  PlainTable(Sink sink, bool on_gpu) : sink_(std::move(sink)), on_gpu_(on_gpu) {}

  void begin(std::span<const std::string> remarks) override {
    for (const std::string& remark : remarks) sink_.line("# " + remark);
    const int width = on_gpu_ ? 42 : 32;
    sink_.line(
        fmt::format("#{:>43}   {:^{}}   {:^{}}", "", "out-of-place", width, "in-place", width));
    const auto names = place("time", "enqueue", "algbw", "busbw", "#wrong");
    const auto units = place("(us)", "(us)", "(GB/s)", "(GB/s)", "");
    constexpr auto columns = "#{:>11} {:>11} {:>13} {:>10}  {}  {}  {}";
    sink_.line(fmt::format(columns, "size", "count", "type", "redop", names, names, "path"));
    sink_.line(fmt::format(columns, "(B)", "(elements)", "", "", units, units, "(algorithm)"));
  }

  void add(std::span<const BenchRow> rows) override {
    std::array<std::string, 2> places;
    places.fill(place("-", "-", "-", "-", "-"));
    for (const BenchRow& row : rows)
      places[row.in_place ? 1 : 0] =
          place(figure(row.time.median), row.enqueue_time ? figure(row.enqueue_time->median) : "-",
                figure(row.algorithm_bandwidth()), figure(row.bus_bandwidth()),
                wrong_text(row.wrong.hymn));
    const BenchRow& row = rows.front();
    sink_.line(fmt::format("{:>12} {:>11} {:>13} {:>10}  {}  {}  {} ({})", row.size_bytes,
                           row.count, row.dtype, row.op, places[0], places[1], row.path,
                           row.algorithm));
  }

  void end(const WrongValues& wrong) override {
    sink_.line("# wrong values: " + wrong_text(wrong.hymn));
    sink_.finish();
  }

 private:
  std::string place(const std::string& time, const std::string& enqueue,
                    const std::string& algorithm_bandwidth, const std::string& bus_bandwidth,
                    const std::string& wrong) const {
    return fmt::format("{:>9} {}{:>8} {:>8} {:>6}", time,
                       on_gpu_ ? fmt::format("{:>9} ", enqueue) : "", algorithm_bandwidth,
                       bus_bandwidth, wrong);
  }
  Sink sink_;
  bool on_gpu_;
};

// ---- With --vs: one line for each place, hymn's times beside the other's.
// ------------------------

class VersusTable : public BenchReport {
 public:
  /// `rival`: "MPI". `on_gpu`: with columns of what the host needs to enqueue.
  VersusTable(Sink sink, std::string rival, bool on_gpu)
      : sink_(std::move(sink)), rival_(std::move(rival)), on_gpu_(on_gpu) {}

  void begin(std::span<const std::string> remarks) override {
    for (const std::string& remark : remarks) sink_.line("# " + remark);
    sink_.line(fmt::format("#{:>54}  {:^{}} {:>24}  {:^{}}", "", "hymn", times_width(), "",
                           "plain " + rival_, times_width()));
    constexpr auto columns =
        "#{:>11} {:>11} {:>13} {:>10} {:>5}  {} {:>8} {:>8} {:>6}  {} {:>6}  {:>6}  {}";
    const std::string names = times("time", "min", "max", "enqueue");
    const std::string units = times("(us)", "(us)", "(us)", "(us)");
    sink_.line(fmt::format(columns, "size", "count", "type", "redop", "place", names, "algbw",
                           "busbw", "#wrong", names, "#wrong", "ratio", "path"));
    sink_.line(fmt::format(columns, "(B)", "(elements)", "", "", "", units, "(GB/s)", "(GB/s)", "",
                           units, "", "", "(algorithm)"));
  }

  void add(std::span<const BenchRow> rows) override {
    for (const BenchRow& row : rows) {
      const std::string head =
          fmt::format("{:>12} {:>11} {:>13} {:>10} {:>5}  {} {:>8} {:>8} {:>6}", row.size_bytes,
                      row.count, row.dtype, row.op, row.in_place ? "in" : "out",
                      times(row.time, row.enqueue_time), figure(row.algorithm_bandwidth()),
                      figure(row.bus_bandwidth()), wrong_text(row.wrong.hymn));
      const auto ratio = row.ratio();
      const std::string rival =
          row.rival_time
              ? times(*row.rival_time, row.rival_enqueue_time)
              : fmt::format("{:^{}}", fmt::format("no {} equivalent", rival_), times_width());
      sink_.line(fmt::format("{}  {} {:>6}  {:>6}  {} ({})", head, rival,
                             wrong_text(row.wrong.rival),
                             ratio ? fmt::format("{:.3f}", *ratio) : "-", row.path, row.algorithm));
    }
  }

  void end(const WrongValues& wrong) override {
    sink_.line(fmt::format("# wrong values: {}, of plain {}: {}", wrong_text(wrong.hymn), rival_,
                           wrong_text(wrong.rival)));
    sink_.finish();
  }

 private:
  int times_width() const { return on_gpu_ ? 37 : 27; }
  std::string times(const BenchTimes& time, const std::optional<BenchTimes>& enqueue) const {
    return times(figure(time.median), figure(time.min), figure(time.max),
                 enqueue ? figure(enqueue->median) : "-");
  }
  std::string times(const std::string& median, const std::string& min, const std::string& max,
                    const std::string& enqueue) const {
    return fmt::format("{:>9} {:>8} {:>8}{}", median, min, max,
                       on_gpu_ ? fmt::format(" {:>9}", enqueue) : "");
  }
  Sink sink_;
  std::string rival_;
  bool on_gpu_;
};

// ---- For programs.
// -------------------------------------------------------------------------------

template <class T>
Json value_or_null(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json median_or_null(const std::optional<BenchTimes>& times) {
  return times ? Json(times->median) : Json(nullptr);
}

// The one place that names the keys of JSON and the columns of CSV.
Json fields_of(const BenchRow& row) {
  Json fields{{"collective", row.collective},
              {"size_bytes", row.size_bytes},
              {"count", row.count},
              {"dtype", row.dtype},
              {"op", row.op},
              {"in_place", row.in_place},
              {"ranks", row.ranks},
              {"time_us", row.time.median},
              {"min_us", row.time.min},
              {"max_us", row.time.max},
              {"algbw_gbps", row.algorithm_bandwidth()},
              {"busbw_gbps", row.bus_bandwidth()},
              {"wrong", value_or_null(row.wrong.hymn)},
              {"path", row.path},
              {"algorithm", row.algorithm}};
  if (row.enqueue_time) fields["enqueue_us"] = row.enqueue_time->median;
  if (row.enqueue_time) fields["copy_gbps"] = value_or_null(row.copy_rate);
  if (row.rival.empty()) return fields;
  fields["vs"] = row.rival;
  fields["vs_time_us"] = median_or_null(row.rival_time);
  if (row.enqueue_time) fields["vs_enqueue_us"] = median_or_null(row.rival_enqueue_time);
  fields["vs_wrong"] = value_or_null(row.wrong.rival);
  fields["ratio"] = value_or_null(row.ratio());
  return fields;
}

class JsonReport : public BenchReport {
 public:
  explicit JsonReport(Sink sink) : sink_(std::move(sink)) {}
  void add(std::span<const BenchRow> rows) override {
    for (const BenchRow& row : rows) {
      text_ += text_.empty() ? "[\n " : ",\n ";
      text_ += fields_of(row).dump();
    }
  }
  void end(const WrongValues&) override {
    sink_.line(text_ + "\n]");
    sink_.finish();
  }

 private:
  Sink sink_;
  std::string text_;
};

// No value can hold a comma or a quote: all are numbers or names of hymn's own. Null is empty.
class CsvReport : public BenchReport {
 public:
  explicit CsvReport(Sink sink) : sink_(std::move(sink)) {}
  void add(std::span<const BenchRow> rows) override {
    for (const BenchRow& row : rows) {
      const Json fields = fields_of(row);
      std::string names;
      std::string values;
      for (const auto& [name, value] : fields.items()) {
        const char* comma = names.empty() ? "" : ",";
        names += comma + name;
        values += comma + (value.is_string() ? value.get<std::string>()
                           : value.is_null() ? std::string()
                                             : value.dump());
      }
      if (!std::exchange(has_header_, true)) sink_.line(names);
      sink_.line(values);
    }
  }
  void end(const WrongValues&) override { sink_.finish(); }

 private:
  Sink sink_;
  bool has_header_ = false;
};

constexpr auto quiet_for = std::chrono::seconds(2);
constexpr auto show_every = std::chrono::milliseconds(200);

}  // namespace

void WrongValues::add(const WrongValues& more) {
  if (more.hymn) hymn = hymn.value_or(0) + *more.hymn;
  if (more.rival) rival = rival.value_or(0) + *more.rival;
}

double BenchRow::algorithm_bandwidth() const {
  return time.median > 0 ? static_cast<double>(size_bytes) / time.median / 1e3 : 0.0;
}

std::optional<double> BenchRow::ratio() const {
  if (!rival_time || rival_time->median <= 0) return std::nullopt;
  return time.median / rival_time->median;
}

BenchReports make_reports(const BenchOptions& options) {
  BenchReports reports;
  if (options.csv == "-") {
    reports.push_back(std::make_unique<CsvReport>(Sink(stdout)));
    return reports;
  }
  if (!options.csv.empty()) reports.push_back(std::make_unique<CsvReport>(Sink(options.csv)));
  if (options.json) {
    reports.push_back(std::make_unique<JsonReport>(Sink(stdout)));
  } else if (options.rival != BenchRival::none) {
    const char* const rival = options.rival == BenchRival::mpi ? "MPI" : "NCCL";
    reports.push_back(std::make_unique<VersusTable>(Sink(stdout), rival, options.on_gpu));
  } else {
    reports.push_back(std::make_unique<PlainTable>(Sink(stdout), options.on_gpu));
  }
  return reports;
}

BenchProgress::BenchProgress(bool wanted) : wanted_(wanted && isatty(STDERR_FILENO) == 1) {}

void BenchProgress::show(const BenchRow& row, std::size_t done, std::size_t all) {
  if (!wanted_) return;
  const auto now = Clock::now();
  if (now - began_ < quiet_for || now - shown_ < show_every) return;
  shown_ = now;
  visible_ = true;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now - began_).count();
  say(fmt::format("\r\033[K{}: {} of {} done, now {} B{}, {} s", row.collective, done, all,
                  row.size_bytes, row.in_place ? " in place" : "", seconds));
  std::fflush(stderr);
}

void BenchProgress::clear() {
  if (!std::exchange(visible_, false)) return;
  say("\r\033[K");
  std::fflush(stderr);
}

}  // namespace hymn
