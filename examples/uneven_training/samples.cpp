#include "examples/uneven_training/samples.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <hymn/shard.hpp>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

namespace uneven {
namespace {

constexpr std::size_t most_classes = 1000;

std::vector<std::string> cells_of(std::string_view line) {
  std::vector<std::string> cells;
  for (std::size_t begin = 0; begin <= line.size();) {
    const std::size_t end = std::min(line.find(',', begin), line.size());
    std::string_view cell = line.substr(begin, end - begin);
    while (!cell.empty() && cell.front() == ' ') cell.remove_prefix(1);
    while (!cell.empty() && (cell.back() == ' ' || cell.back() == '\r')) cell.remove_suffix(1);
    cells.emplace_back(cell);
    begin = end + 1;
  }
  return cells;
}

std::optional<float> number(const std::string& text) {
  float value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

/// The cells of a sample's line without its class; nothing where one is no number.
std::optional<std::vector<float>> features_of(const std::vector<std::string>& cells) {
  std::vector<float> features;
  for (std::size_t i = 0; i + 1 < cells.size(); ++i) {
    const std::optional<float> value = number(cells[i]);
    if (!value) return {};
    features.push_back(*value);
  }
  return features;
}

/// Classes get their numbers in the order of their names, whatever the order of the lines.
void number_classes(const std::vector<std::string>& names, const std::string& path,
                    Samples& samples) {
  std::map<std::string, std::int32_t> classes;
  for (const std::string& name : names) classes.emplace(name, 0);
  std::int32_t next = 0;
  for (auto& [name, label] : classes) label = next++;
  samples.classes = classes.size();
  if (samples.classes < 2 || samples.classes > most_classes)
    throw std::runtime_error(
        fmt::format("{}: the last column has {} different classes, not 2 to {}", path,
                    samples.classes, most_classes));
  for (const std::string& name : names) samples.labels.push_back(classes[name]);
}

void take(const Samples& all, std::size_t sample, Samples& to) {
  const std::span<const float> values = all[sample];
  to.values.insert(to.values.end(), values.begin(), values.end());
  to.labels.push_back(all.labels[sample]);
}

void shift_and_scale(Samples& samples, std::size_t feature, double shift, double scale) {
  for (std::size_t i = feature; i < samples.values.size(); i += samples.features)
    samples.values[i] = static_cast<float>((samples.values[i] - shift) * scale);
}

}  // namespace

Samples read_csv(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(fmt::format("{}: cannot be read", path));
  Samples samples;
  std::vector<std::string> names;
  std::string line;
  for (std::size_t number = 1; std::getline(file, line); ++number) {
    if (line.empty()) continue;
    const std::vector<std::string> cells = cells_of(line);
    const std::optional<std::vector<float>> features = features_of(cells);
    // What a first line with other columns was is known when the second one has come.
    if (names.size() == 1 && number == 2 && features && features->size() != samples.features) {
      samples = {};
      names.clear();
    }
    if (names.empty() && features) samples.features = features->size();
    if (!features || features->size() != samples.features || features->empty()) {
      if (number == 1) continue;
      throw std::runtime_error(
          fmt::format("{}, line {}: not {} numbers and a class", path, number, samples.features));
    }
    samples.values.insert(samples.values.end(), features->begin(), features->end());
    names.push_back(cells.back());
  }
  number_classes(names, path, samples);
  return samples;
}

Split split(const Samples& all, std::uint64_t seed) {
  Split parts;
  for (Samples* const part : {&parts.training, &parts.test}) {
    part->features = all.features;
    part->classes = all.classes;
  }
  std::size_t place = 0;
  for (const std::size_t sample : hymn::shard({0, all.size()}, 0, 1, {.shuffle = seed}))
    take(all, sample, ++place % 5 == 0 ? parts.test : parts.training);

  const auto count = static_cast<double>(parts.training.size());
  for (std::size_t feature = 0; feature < all.features; ++feature) {
    double sum = 0;
    double squares = 0;
    for (std::size_t i = 0; i < parts.training.size(); ++i) sum += parts.training[i][feature];
    const double mean = sum / count;
    for (std::size_t i = 0; i < parts.training.size(); ++i)
      squares += std::pow(parts.training[i][feature] - mean, 2);
    const double deviation = std::sqrt(squares / count);
    const double scale = deviation > 1e-12 ? 1 / deviation : 0;  // the same everywhere: no use
    shift_and_scale(parts.training, feature, mean, scale);
    shift_and_scale(parts.test, feature, mean, scale);
  }
  return parts;
}

}  // namespace uneven
