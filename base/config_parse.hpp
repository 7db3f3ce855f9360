// The values of HYMN_* variables, from text. All of these throw ConfigError, which quotes the
// value, for what is malformed.
#pragma once

#include <fmt/format.h>

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "base/config.hpp"

namespace hymn::config {

inline constexpr std::array log_levels = {LogLevel::off, LogLevel::error, LogLevel::warning,
                                          LogLevel::info, LogLevel::debug};
inline constexpr std::array thread_levels = {ThreadLevel::single, ThreadLevel::funneled,
                                             ThreadLevel::serialized, ThreadLevel::multiple};
inline constexpr std::array bootstraps = {Bootstrap::mpi, Bootstrap::environment};
inline constexpr std::array bind_targets = {BindTo::none, BindTo::core, BindTo::numa,
                                            BindTo::package};

inline constexpr std::array reproducibility_levels = {Reproducibility::ranks, Reproducibility::runs,
                                                      Reproducibility::placement,
                                                      Reproducibility::size};

inline constexpr std::array failure_policies = {OnFailure::report, OnFailure::clean_up,
                                                OnFailure::tear_down};
inline constexpr std::array dump_formats = {DumpFormat::json, DumpFormat::torch};
inline constexpr std::array check_levels = {CheckLevel::off, CheckLevel::info, CheckLevel::detail};
inline constexpr std::array p2p_compats = {P2pCompat::none, P2pCompat::c10d};
inline constexpr std::array preload_uses = {PreloadUse::off, PreloadUse::watch, PreloadUse::on,
                                            PreloadUse::always};
inline constexpr std::array preload_bits = {PreloadBits::hymn, PreloadBits::mpi};
inline constexpr std::array nccl_inits = {NcclInit::lazy, NcclInit::eager, NcclInit::background};

inline constexpr int most_ctas = 64;
inline constexpr int most_tcp_streams = 16;
inline constexpr int most_in_cluster = 8;

[[noreturn]] void refuse(std::string_view name, std::string_view value, std::string_view expected);

bool parse_bool(std::string_view name, std::string_view value);
Timeout parse_timeout(std::string_view name, std::string_view value);
std::size_t parse_chunk_limit(std::string_view name, std::string_view value);
std::size_t parse_up_to(std::size_t most, std::string_view name, std::string_view value);
std::string parse_gpu(std::string_view name, std::string_view value);
/// <base>[:seconds]
MetricsPlace parse_metrics(std::string_view name, std::string_view value);
int parse_from(int least, int most, std::string_view name, std::string_view value);
/// Unset where the text is empty.
std::optional<int> parse_number_or_none(int least, int most, std::string_view name,
                                        std::string_view value);
/// Whether it is high.
bool parse_priority(std::string_view name, std::string_view value);

template <class Enum, std::size_t n>
Enum parse_enum(std::string_view name, std::string_view value, const std::array<Enum, n>& all) {
  std::string expected;
  for (Enum candidate : all) {
    if (value == to_string(candidate)) return candidate;
    expected += fmt::format("{}{}", expected.empty() ? "" : ", ", to_string(candidate));
  }
  refuse(name, value, "one of " + expected);
}

}  // namespace hymn::config
