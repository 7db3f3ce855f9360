// Sizes and other counts on the command line.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

namespace hymn {

/// CLI11 takes -1 for the largest unsigned number.
inline CLI::Validator unsigned_number() {
  return {[](std::string& text) {
            return text.starts_with('-') ? text + " is negative" : std::string();
          },
          ""};
}

/// A number of bytes, also as "64K": K, M and G are powers of 1024.
inline CLI::Option* add_size(CLI::App& app, const std::string& name, std::uint64_t& bytes,
                             const std::string& meaning) {
  return app.add_option(name, bytes, meaning)
      ->transform(CLI::AsSizeValue(false))
      ->check(unsigned_number())
      ->capture_default_str();
}

}  // namespace hymn
