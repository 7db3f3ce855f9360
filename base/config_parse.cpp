#include "base/config_parse.hpp"

#include <charconv>

#include "hymn/error.hpp"

namespace hymn {

std::string_view to_string(Bootstrap bootstrap) noexcept {
  switch (bootstrap) {
    case Bootstrap::mpi:
      return "mpi";
    case Bootstrap::environment:
      return "environment";
  }
  return "?";
}

std::string_view to_string(BindTo target) noexcept {
  switch (target) {
    case BindTo::none:
      return "none";
    case BindTo::core:
      return "core";
    case BindTo::numa:
      return "numa";
    case BindTo::package:
      return "package";
  }
  return "?";
}

std::string_view to_string(NcclInit init) noexcept {
  switch (init) {
    case NcclInit::lazy:
      return "lazy";
    case NcclInit::eager:
      return "eager";
    case NcclInit::background:
      return "background";
  }
  return "?";
}

std::string_view to_string(OnFailure policy) noexcept {
  switch (policy) {
    case OnFailure::report:
      return "report";
    case OnFailure::clean_up:
      return "clean_up";
    case OnFailure::tear_down:
      return "tear_down";
  }
  return "?";
}

std::string_view to_string(DumpFormat format) noexcept {
  switch (format) {
    case DumpFormat::json:
      return "json";
    case DumpFormat::torch:
      return "torch";
  }
  return "?";
}

std::string_view to_string(P2pCompat rules) noexcept {
  return rules == P2pCompat::c10d ? "c10d" : "none";
}

std::string_view to_string(PreloadUse use) noexcept {
  switch (use) {
    case PreloadUse::off:
      return "off";
    case PreloadUse::watch:
      return "watch";
    case PreloadUse::always:
      return "always";
    case PreloadUse::on:
      break;
  }
  return "on";
}

std::string_view to_string(PreloadBits bits) noexcept {
  return bits == PreloadBits::mpi ? "mpi" : "hymn";
}

std::string_view to_string(ThreadLevel level) noexcept {
  switch (level) {
    case ThreadLevel::single:
      return "single";
    case ThreadLevel::funneled:
      return "funneled";
    case ThreadLevel::serialized:
      return "serialized";
    case ThreadLevel::multiple:
      return "multiple";
  }
  return "unknown";
}

NcclOptions nccl_options(const NcclOptions& group, const NcclOptions& otherwise,
                         std::string_view source) {
  NcclOptions merged = group;
  if (!merged.init) merged.init = otherwise.init;
  if (!merged.min_ctas) merged.min_ctas = otherwise.min_ctas;
  if (!merged.max_ctas) merged.max_ctas = otherwise.max_ctas;
  if (!merged.cga_size) merged.cga_size = otherwise.cga_size;
  if (merged.net_name.empty()) merged.net_name = otherwise.net_name;
  if (!merged.blocking) merged.blocking = otherwise.blocking;
  if (!merged.reduce_in_float32) merged.reduce_in_float32 = otherwise.reduce_in_float32;
  const auto check = [source](std::string_view name, const std::optional<int>& value, int least,
                              int most) {
    if (value && (*value < least || *value > most))
      throw ConfigError(fmt::format("{}: {} is {}", source, name, *value),
                        {.remedy = fmt::format("give a number from {} to {}", least, most)});
  };
  check("min_ctas", merged.min_ctas, 1, config::most_ctas);
  check("max_ctas", merged.max_ctas, 1, config::most_ctas);
  check("cga_size", merged.cga_size, 0, config::most_in_cluster);
  if (merged.min_ctas && merged.max_ctas && *merged.min_ctas > *merged.max_ctas)
    throw ConfigError(fmt::format("{}: at least {} thread blocks (CTAs) for NCCL, but at most {}",
                                  source, *merged.min_ctas, *merged.max_ctas),
                      {.remedy = "give a min_ctas of at most max_ctas (HYMN_NCCL_MIN_CTAS, "
                                 "HYMN_NCCL_MAX_CTAS)"});
  return merged;
}

std::string describe(const NcclOptions& options) {
  std::string text = fmt::format("init {}", to_string(options.init.value_or(NcclInit::lazy)));
  const auto add = [&text](std::string_view name, const std::optional<int>& value) {
    if (value) text += fmt::format(", {} {}", name, *value);
  };
  add("min_ctas", options.min_ctas);
  add("max_ctas", options.max_ctas);
  add("cga_size", options.cga_size);
  if (!options.net_name.empty()) text += ", net " + options.net_name;
  if (options.blocking.value_or(false)) text += ", blocking";
  if (options.reduce_in_float32.value_or(false)) text += ", reduce_in_float32";
  return text;
}

namespace config {
namespace {

template <class Number>
bool parse_number(std::string_view text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

}  // namespace

void refuse(std::string_view name, std::string_view value, std::string_view expected) {
  throw ConfigError(fmt::format("{}='{}' is not valid", name, value),
                    {.remedy = fmt::format("give {}, or unset it", expected)});
}

bool parse_bool(std::string_view name, std::string_view value) {
  for (std::string_view yes : {"1", "true", "yes", "on"})
    if (value == yes) return true;
  for (std::string_view no : {"0", "false", "no", "off"})
    if (value == no) return false;
  refuse(name, value, "1, true, yes, on, 0, false, no or off");
}

Timeout parse_timeout(std::string_view name, std::string_view value) {
  if (value == "none") return Timeout::none();
  double seconds = 0;
  // 1e9 seconds are 31 years: anything longer is a mistake, and would overflow nanoseconds.
  if (!parse_number(value, seconds) || !(seconds > 0) || seconds > 1e9)
    refuse(name, value, "seconds above 0 and up to 1e9, or none");
  return std::chrono::duration<double>(seconds);
}

std::size_t parse_chunk_limit(std::string_view name, std::string_view value) {
  std::size_t limit = 0;
  // One MPI call takes a C int.
  if (!parse_number(value, limit) || limit == 0 || limit > (std::size_t{1} << 31) - 1)
    refuse(name, value, "elements from 1 to 2147483647");
  return limit;
}

std::size_t parse_up_to(std::size_t most, std::string_view name, std::string_view value) {
  std::size_t number = 0;
  if (!parse_number(value, number) || number > most)
    refuse(name, value, fmt::format("a number from 0 to {}", most));
  return number;
}

std::string parse_gpu(std::string_view name, std::string_view value) {
  unsigned index = 0;
  if (!value.empty() && value != "none" && (!parse_number(value, index) || index > 255))
    refuse(name, value, "an index from 0 to 255, none, or empty for the nearest one");
  return std::string(value);
}

MetricsPlace parse_metrics(std::string_view name, std::string_view value) {
  MetricsPlace place{.text = std::string(value)};
  const std::size_t colon = value.rfind(':');
  // A colon in a folder's name is none that seconds follow.
  if (colon != std::string_view::npos && value.find('/', colon) == std::string_view::npos) {
    const std::string_view after = value.substr(colon + 1);
    double seconds = 0;
    if (!parse_number(after, seconds) || !(seconds >= 0.1) || seconds > 1e9)
      refuse(name, value, "the beginning of file names, optionally with :seconds from 0.1 to 1e9");
    place.period = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds));
    value = value.substr(0, colon);
  }
  constexpr std::string_view json = ".json";
  place.json = value.ends_with(json);
  if (place.json) value.remove_suffix(json.size());
  place.base = value;
  return place;
}

std::optional<int> parse_number_or_none(int least, int most, std::string_view name,
                                        std::string_view value) {
  return value.empty() ? std::nullopt : std::optional(parse_from(least, most, name, value));
}

int parse_from(int least, int most, std::string_view name, std::string_view value) {
  int number = 0;
  if (!parse_number(value, number) || number < least || number > most)
    refuse(name, value, fmt::format("a number from {} to {}", least, most));
  return number;
}

bool parse_priority(std::string_view name, std::string_view value) {
  if (value == "high") return true;
  if (value == "normal") return false;
  refuse(name, value, "normal or high");
}

}  // namespace config
}  // namespace hymn
