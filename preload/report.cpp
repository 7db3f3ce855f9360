#include "preload/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "preload/session.hpp"
#include "recorder/stamp.hpp"

namespace hymn::preload {
namespace {

/// The counts of one call, of all ranks together.
struct Row {
  static constexpr std::size_t words = 5 + reason_count;

  Call call{};
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  double seconds = 0;
  double carried_seconds = 0;
  double mpi_seconds = 0;  ///< that MPI should have taken for those
  std::vector<std::uint64_t> reasons{};

  std::uint64_t carried() const { return reasons[static_cast<std::size_t>(Reason::carried)]; }
};

void append(std::vector<std::uint64_t>& words, const CallCount& count) {
  for (const auto* each :
       {&count.calls, &count.bytes, &count.ticks, &count.carried_ticks, &count.mpi_ticks})
    words.push_back(each->load());
  for (const auto& each : count.reasons) words.push_back(each.load());
}

std::vector<Row> rows_of(const std::vector<std::uint64_t>& words, double seconds_per_tick) {
  std::vector<Row> rows;
  for (std::size_t i = 0; i < call_count; ++i) {
    const std::uint64_t* const own = words.data() + i * Row::words;
    if (own[0] == 0) continue;
    rows.push_back({static_cast<Call>(i),
                    own[0],
                    own[1],
                    static_cast<double>(own[2]) * seconds_per_tick,
                    static_cast<double>(own[3]) * seconds_per_tick,
                    static_cast<double>(own[4]) * seconds_per_tick,
                    {own + 5, own + Row::words}});
  }
  std::ranges::sort(rows, [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  return rows;
}

std::string mean_us(double seconds, std::uint64_t calls) {
  return calls == 0 ? "-" : fmt::format("{:.2f}", seconds * 1e6 / static_cast<double>(calls));
}

std::string line_of(const Row& row, double all_seconds) {
  const bool is_collective = kind_of(row.call) == Kind::carried;
  const std::uint64_t by_hymn = row.carried();
  return fmt::format(
      "{:<26} {:>10} {:>10} {:>10} {:>9.3f} {:>6.1f} {:>10} {:>10} {:>9}\n", name_of(row.call),
      row.calls, by_hymn == 0 ? "-" : fmt::format("{}", row.bytes / row.calls),
      is_collective ? fmt::format("{}", by_hymn) : "-", row.seconds,
      all_seconds > 0 ? 100 * row.seconds / all_seconds : 0, mean_us(row.carried_seconds, by_hymn),
      mean_us(row.seconds - row.carried_seconds, row.calls - by_hymn),
      by_hymn == 0 ? "-" : fmt::format("{:.3f}", row.mpi_seconds - row.carried_seconds));
}

std::string reasons_of(const std::vector<Row>& rows) {
  std::string text;
  for (const Row& row : rows)
    for (std::size_t i = 1; i < reason_count; ++i)
      if (row.reasons[i] != 0)
        text += fmt::format("  {:<24} {:>10}  {}\n", name_of(row.call), row.reasons[i],
                            text_of(static_cast<Reason>(i)));
  return text.empty() ? text : "collectives left to MPI:\n" + text;
}

std::string report_of(const std::vector<Row>& rows, int ranks, double seconds) {
  const double all_seconds = seconds * ranks;
  const double in_mpi = std::accumulate(
      rows.begin(), rows.end(), 0.0, [](double sum, const Row& row) { return sum + row.seconds; });
  std::string text = fmt::format(
      "hymn preload: {} ranks, {:.3f} s from MPI_Init to MPI_Finalize, {:.1f} % of it in MPI\n"
      "{:<26} {:>10} {:>10} {:>10} {:>9} {:>6} {:>10} {:>10} {:>9}\n",
      ranks, seconds, all_seconds > 0 ? 100 * in_mpi / all_seconds : 0, "call (all ranks)", "calls",
      "bytes", "by hymn", "seconds", "%", "us, hymn", "us, MPI", "gain, s");
  double gain = 0;
  for (const Row& row : rows) {
    text += line_of(row, all_seconds);
    gain += row.mpi_seconds - row.carried_seconds;
  }
  return text + fmt::format("estimated gain: {:.3f} s of each rank\n", gain / ranks) +
         reasons_of(rows);
}

}  // namespace

void print_report(const Session& session) {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - session.began();
  const std::uint64_t all_ticks = processor_stamp() - session.began_ticks();
  std::vector<std::uint64_t> words;
  for (std::size_t i = 0; i < call_count; ++i)
    append(words, session.counts().of(static_cast<Call>(i)));
  std::vector<std::uint64_t> all(words.size());
  PMPI_Reduce(words.data(), all.data(), static_cast<int>(words.size()), MPI_UINT64_T, MPI_SUM, 0,
              MPI_COMM_WORLD);
  int rank = 0;
  int ranks = 1;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank != 0) return;
  const std::string text =
      report_of(rows_of(all, all_ticks == 0 ? 0 : passed.count() / static_cast<double>(all_ticks)),
                ranks, passed.count());
  std::fputs(text.c_str(), stderr);
}

}  // namespace hymn::preload
