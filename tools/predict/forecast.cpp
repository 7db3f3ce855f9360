#include "tools/predict/forecast.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "tools/bad_arguments.hpp"

namespace hymn {
namespace {

std::size_t bytes_of(const Program& program, const std::vector<std::size_t>& values) {
  std::size_t bytes = 0;
  for (const std::size_t value : values) bytes += program.values[value].bytes();
  return bytes;
}

/// Plays the program, and keeps the time.
class Playing {
 public:
  Playing(const Program& program, ImaginedPlaces& places, const PlanTask& rest)
      : program_(program), places_(places), rest_(rest), ready_(program.values.size(), 0) {}

  Forecast run() {
    for (const ProgramNode& node : program_.nodes) play(node);
    forecast_.end_us = std::max(clock_, forecast_.end_us);
    return std::move(forecast_);
  }

 private:
  void play(const ProgramNode& node) {
    switch (node.kind) {
      case NodeKind::collective:
      case NodeKind::call:
        calls_end_[&node] = call(node);
        return give(node, calls_end_[&node]);
      case NodeKind::wait:
        clock_ = std::max(clock_, ready_of(node));
        for (const std::size_t before : node.calls)
          clock_ = std::max(clock_, calls_end_[&program_.nodes[before]]);
        return;
      case NodeKind::view:
        return give(node, ready_of(node));
      case NodeKind::copy:
      case NodeKind::step:
        // These look at what they take.
        clock_ = std::max(clock_, ready_of(node));
        return give(node, clock_);
    }
  }

  double ready_of(const ProgramNode& node) const {
    double last = 0;
    for (const std::size_t value : node.inputs) last = std::max(last, ready_[value]);
    return last;
  }
  void give(const ProgramNode& node, double when) {
    for (const std::size_t value : node.outputs) ready_[value] = when;
  }

  /// When it is over.
  double call(const ProgramNode& node) {
    const double us = time_of(node);
    if (is_message(type_of(node))) return message(node, us);
    double& is_free = group_is_free_[node.group];
    is_free = std::max({is_free, clock_, ready_of(node)}) + us;
    forecast_.one_by_one_us += us;
    forecast_.end_us = std::max(forecast_.end_us, is_free);
    return is_free;
  }

  /// Messages do not wait for each other, nor for collectives.
  double message(const ProgramNode& node, double us) {
    const double end = std::max(clock_, ready_of(node)) + us;
    forecast_.one_by_one_us += us;
    forecast_.end_us = std::max(forecast_.end_us, end);
    return end;
  }

  /// Of the ranks that it is between.
  GroupLayout layout_of(const ProgramNode& node) {
    const int peer = node.call.peer;
    if (!is_message(type_of(node)) || peer == any_source || peer == program_.rank)
      return layout_of(node.group);
    const std::array both{std::min(program_.rank, peer), std::max(program_.rank, peer)};
    return places_.layout_of(both);
  }

  double time_of(const ProgramNode& node) {
    const GroupLayout layout = layout_of(node);
    ForecastCall one{.name = name_of(node), .ranks = layout.size};
    one.hosts = static_cast<int>(layout.hosts.size());
    one.bytes = std::max(bytes_of(program_, node.inputs), bytes_of(program_, node.outputs));
    if (layout.size > 1) plan(one, node, layout);
    return note(std::move(one));
  }

  void plan(ForecastCall& one, const ProgramNode& node, const GroupLayout& layout) {
    PlanTask task = rest_;
    task.query.type = type_of(node);
    task.query.dtype = dtype_of(program_, node).value_or(DataType::uint8);
    task.query.op = reduction_of(node).kind();
    task.context.layout = layout;
    task.min_bytes = task.max_bytes = std::max(one.bytes, size_of(task.query.dtype));
    const PlanRange range = plan_ranges(task).front();
    const int chosen = range.build >= 0 ? range.build : range.planned;
    if (chosen < 0) return;
    const PlanOption& option = range.options[static_cast<std::size_t>(chosen)];
    one.path = option.path;
    one.algorithm = option.algorithm;
    one.us = option.first_us;
  }

  double note(ForecastCall one) {
    const auto known = std::ranges::find_if(forecast_.calls, [&one](const ForecastCall& other) {
      return other.name == one.name && other.bytes == one.bytes && other.ranks == one.ranks &&
             other.hosts == one.hosts && other.us == one.us;
    });
    ForecastCall& kept =
        known != forecast_.calls.end() ? *known : forecast_.calls.emplace_back(std::move(one));
    ++kept.times;
    return kept.us;
  }

  const GroupLayout& layout_of(std::size_t group) {
    const auto [known, is_new] = layouts_.try_emplace(group);
    if (is_new) {
      const std::vector<int>& ranks = program_.groups[group].ranks;
      const int highest = *std::ranges::max_element(ranks);
      if (highest >= places_.ranks())
        throw BadArguments(fmt::format("the program has a rank {}, but the job only {} ranks",
                                       highest, places_.ranks()));
      known->second = places_.layout_of(ranks);
    }
    return known->second;
  }

  const Program& program_;
  ImaginedPlaces& places_;
  const PlanTask& rest_;
  Forecast forecast_;
  double clock_ = 0;
  std::vector<double> ready_;
  std::map<const ProgramNode*, double> calls_end_;
  std::map<std::size_t, double> group_is_free_;
  std::map<std::size_t, GroupLayout> layouts_;
};

}  // namespace

Forecast forecast(const Program& program, ImaginedPlaces& places, const PlanTask& rest) {
  return Playing(program, places, rest).run();
}

}  // namespace hymn
