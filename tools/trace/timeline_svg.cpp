// Draws the timeline. What matters is told by shape and words as well as by colour.
#include "tools/trace/timeline_svg.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/svg_sheet.hpp"
#include "tools/trace/report.hpp"
#include "tools/trace/time_scale.hpp"
#include "tools/trace/timeline.hpp"
#include "tools/trace/words.hpp"
#include "tools/words.hpp"

namespace hymn::trace {

namespace {

constexpr double sheet_width = 1280;
constexpr double margin = 28;
constexpr double label_width = 150;
constexpr double rows_top = 112;
constexpr double plot_left = margin + label_width;
constexpr double plot_right = sheet_width - margin;
constexpr double thinnest = 2;  // of a bar; what has no length is this wide
constexpr double smallest_letters = 6;
constexpr int tick_count = 8;
constexpr std::size_t usual_count = 64;
constexpr std::string_view guilty_ink = "#a61b1b";
constexpr std::string_view guilty_ground = "#fdeceb";
constexpr std::array<std::string_view, 10> group_fills{"#2f5f8f", "#e9b872", "#6d4a7e", "#93c2b4",
                                                       "#8c5a3c", "#b9c4d6", "#3f6b4f", "#d98ca6",
                                                       "#55606e", "#c8b458"};

double row_height(std::size_t rows) {
  if (rows <= 4) return 44;
  if (rows <= 16) return 28;
  return rows <= 64 ? 16 : 12;
}

class Drawing : SvgSheet {
 public:
  Drawing(const Timeline& timeline, const std::vector<Finding>& findings)
      : timeline_(timeline),
        findings_(findings),
        height_(row_height(timeline.rows.size())),
        bottom_(rows_top + height_ * static_cast<double>(timeline.rows.size())),
        scale_(timeline.times.empty() ? std::vector<double>{0} : timeline.times, plot_left + 4,
               plot_right - 12) {}

  std::string draw(const Job& job);

 private:
  void heads(const Job& job);
  void axis();
  void row(const Row& row, double top);
  void remark(const Row& row, double top);
  void bar(const Bar& bar, const Row& row, double top);
  Box box_of(const Bar& bar, const Row& row, double top) const;
  void breaks();
  void legend();
  void notes(const Job& job);
  void labels(const Row& row, double top);
  void label(const Bar& bar, const Box& box, double& free_from);
  std::string_view fill_of(const std::string& group) const;
  std::string title() const;
  double letters() const { return std::min(11.0, height_ - 3); }

  const Timeline& timeline_;
  const std::vector<Finding>& findings_;
  double height_;
  double bottom_;
  TimeScale scale_;
};

std::string_view Drawing::fill_of(const std::string& group) const {
  const auto& groups = timeline_.groups;
  const auto found = std::lower_bound(groups.begin(), groups.end(), group);
  return group_fills[static_cast<std::size_t>(found - groups.begin()) % group_fills.size()];
}

std::string Drawing::title() const {
  return has_fault(findings_) ? findings_.front().title : "no fault found";
}

void Drawing::heads(const Job& job) {
  const double room = plot_right - margin;
  const std::string_view colour = has_fault(findings_) ? guilty_ink : ink;
  text({margin, 44}, "start", 18, colour, true, fitted(title(), 18, room, true));
  const Dump& first = job.dumps().front();
  const std::string about =
      fmt::format("{}dumps of {} of {}, made {}", first.program.empty() ? "" : first.program + ": ",
                  job.dumps().size(), counted(static_cast<std::size_t>(job.world_size()), "rank"),
                  clock_text(first.time_ns));
  text({margin, 64}, "start", 11, quiet_ink, false, fitted(about, 11, room));
}

void Drawing::axis() {
  double free_from = 0;  // no label over another
  for (const TimeScale::Tick& tick : scale_.ticks(tick_count)) {
    put(R"(<path d="M{:.5g} {:.5g}V{:.5g}" stroke="#e4e7eb"/>)", tick.x, rows_top, bottom_ + 4);
    put("\n");
    const double width = text_width(tick.label, 9) + 6;
    if (tick.x - width / 2 < free_from) continue;
    text({tick.x, bottom_ + 16}, "middle", 9, quiet_ink, false, tick.label);
    free_from = tick.x + width / 2;
  }
  put(R"(<path d="M{:.5g} {:.5g}H{:.5g}" stroke="#9aa5b1"/>)", plot_left, bottom_, plot_right);
  put("\n");
}

void Drawing::breaks() {
  for (const TimeScale::AxisBreak& axis_break : scale_.breaks()) {
    const double middle = (axis_break.left + axis_break.right) / 2;
    put(R"(<path class="cut" d="M{:.5g} {:.5g}V{:.5g}M{:.5g} {:.5g}V{:.5g}" stroke="#ffffff" stroke-width="2.5"/>)",
        middle - 3, rows_top, bottom_, middle + 3, rows_top, bottom_);
    put("\n");
    text({middle, rows_top - 8}, "middle", 9, quiet_ink, false,
         fmt::format("… {} …", span_text(axis_break.seconds)));
  }
}

Box Drawing::box_of(const Bar& bar, const Row& row, double top) const {
  const double lane = (height_ - 4) / row.lanes;
  const double left = scale_.at(bar.begin);
  const double width = std::max(scale_.at(bar.end) - left, thinnest);
  return {left, top + 2 + lane * bar.lane, width, std::max(lane - 1, 2.0)};
}

// Along the bar as much as there is room for; beside a thin one its number, upright. What would
// cover another label is left out.
void Drawing::label(const Bar& bar, const Box& box, double& free_from) {
  const double size = std::min(9.0, box.height - 2);
  if (size < smallest_letters || box.x < free_from) return;
  const double base = box.y + box.height / 2 + size * 0.36;
  for (const std::string& words : bar.labels) {
    const double width = text_width(words, size) + 4;
    if (width + 4 > box.width) continue;
    rectangle({box.x + 3, base - size, width, size + 3}, {"#ffffff", "none", 2});
    text({box.x + 5, base}, "start", size, ink, false, words);
    free_from = box.x + width + 4;
    return;
  }
  const std::string& number = bar.labels.back();
  if (text_width(number, size) > box.height) return;
  const double width = text_width(number, size);
  const double right = box.x + thinnest + size;
  rectangle({right - size, box.bottom() - width - 3, size + 2, width + 2}, {"#ffffff", "none", 2});
  put(R"svg(<g transform="translate({:.5g} {:.5g}) rotate(-90)">)svg", right, box.bottom() - 2);
  text({0, 0}, "start", size, ink, false, number);
  put("</g>\n");
  free_from = box.x + thinnest + size + 2;
}

void Drawing::bar(const Bar& bar, const Row& row, double top) {
  const Box box = box_of(bar, row, top);
  put(R"(<g class="op" data-rank="{}" data-state="{}">)", row.rank,
      bar.is_open     ? "open"
      : bar.is_failed ? "failed"
                      : "completed");
  put("<title>{}</title>\n", xml_escaped(bar.tip));
  const std::string_view edge = bar.is_failed ? guilty_ink : bar.is_marked ? ink : "none";
  rectangle(box, {fill_of(bar.group), edge, 1.5});
  if (bar.is_open) rectangle(box, {"url(#open)", ink, 1.5}, true);
  if (bar.is_failed) {
    put(R"(<path d="M{0:.5g} {1:.5g}L{2:.5g} {3:.5g}M{0:.5g} {3:.5g}L{2:.5g} {1:.5g}" stroke="{4}" stroke-width="1.5"/>)",
        box.right() - std::min(box.height, box.width), box.y, box.right(), box.bottom(),
        guilty_ink);
    put("\n");
  }
  put("</g>\n");
}

void Drawing::row(const Row& row, double top) {
  const double size = letters();
  if (row.is_guilty)
    rectangle({margin - 6, top, plot_right - margin + 6, height_ - 1}, {guilty_ground, "none", 2});
  put(R"(<g class="row" data-row="{}">)", row.rank);
  put("\n");
  const double base = top + height_ / 2 + size * 0.36;
  const std::string name = (row.is_guilty ? "✗ " : "") + row.label;
  text({margin, base}, "start", size, row.is_guilty ? guilty_ink : ink, row.is_guilty,
       fitted(name, size, label_width - 8, row.is_guilty));
  for (const Bar& each : row.bars) bar(each, row, top);
  put("</g>\n");
}

void Drawing::labels(const Row& row, double top) {
  std::vector<double> free_from(static_cast<std::size_t>(row.lanes), 0);
  for (const Bar& each : row.bars)
    label(each, box_of(each, row, top), free_from[static_cast<std::size_t>(each.lane)]);
}

// Behind the last bar, or where there is no room, before the end and over it.
void Drawing::remark(const Row& row, double top) {
  const double size = letters();
  const double base = top + height_ / 2 + size * 0.36;
  double end = plot_left;
  for (const Bar& each : row.bars) end = std::max(end, scale_.at(each.end));
  std::string words = row.remark;
  if (!row.has_dump) words += words.empty() ? "no dump" : " (no dump)";
  if (const double room = plot_right - end - 12; text_width(words, size, true) <= room) {
    text({end + 8, base}, "start", size, row.is_guilty ? guilty_ink : quiet_ink, row.is_guilty,
         words);
  } else if (!words.empty()) {
    const std::string shown = fitted(words, size, plot_right - plot_left - 16, true);
    const double width = text_width(shown, size, true) + 8;
    rectangle({plot_right - width - 2, base - size, width, size + 4}, {guilty_ground, "none", 2});
    text({plot_right - 6, base}, "end", size, guilty_ink, true, shown);
  }
}

void Drawing::legend() {
  const double y = bottom_ + 40;
  double x = margin;
  const auto add = [&](const std::string& words, const auto& sign) {
    sign(Box{x, y - 8, 22, 11});
    text({x + 28, y + 1}, "start", 10, quiet_ink, false, words);
    x += 28 + text_width(words, 10) + 16;
  };
  for (const std::string& group : timeline_.groups) {
    if (x > plot_right - 420) break;
    add(fitted(group, 10, 160),
        [&](const Box& box) { rectangle(box, {fill_of(group), "none", 1.5}); });
  }
  add("in flight", [&](const Box& box) {
    rectangle(box, {quiet_ink, "none", 1.5});
    rectangle(box, {"url(#open)", ink, 1.5}, true);
  });
  add("failed", [&](const Box& box) { rectangle(box, {"none", guilty_ink, 1.5}); });
  add("what the verdict is about", [&](const Box& box) { rectangle(box, {"none", ink, 1.5}); });
  add("the cause", [&](const Box& box) { rectangle(box, {guilty_ground, guilty_ink, 1.5}); });
}

void Drawing::notes(const Job& job) {
  double y = bottom_ + 58;
  const auto add = [&](const std::string& words) {
    text({margin, y}, "start", 10, quiet_ink, false, words);
    y += 14;
  };
  if (timeline_.left_out > 0)
    add(fmt::format("{} without a row here", counted(timeline_.left_out, "further rank")));
  if (timeline_.several_hosts)
    add("each host has its own clock: rows of different hosts may be shifted against each other");
  const bool timing = std::any_of(job.dumps().begin(), job.dumps().end(),
                                  [](const Dump& dump) { return dump.timing; });
  if (!timing) add("durations were not recorded: what has completed may be drawn as a line");
}

std::string Drawing::draw(const Job& job) {
  begin(sheet_width, bottom_ + 108, title());
  put(R"svg(<defs><pattern id="open" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><path d="M0 0V6" stroke="#ffffff" stroke-width="3" stroke-opacity="0.75"/></pattern></defs>)svg");
  put("\n");
  heads(job);
  double top = rows_top;
  axis();
  for (const Row& each : timeline_.rows) {
    row(each, top);
    top += height_;
  }
  breaks();
  top = rows_top;
  for (const Row& each : timeline_.rows) {
    labels(each, top);
    remark(each, top);
    top += height_;
  }
  legend();
  notes(job);
  return end();
}

}  // namespace

std::string timeline_svg(const Job& job, const std::vector<Finding>& findings, std::size_t count) {
  const Timeline timeline =
      make_timeline(job, findings, count == 0 ? usual_count : count, most_rows);
  return Drawing(timeline, findings).draw(job);
}

}  // namespace hymn::trace
