#include "base/interface_list.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <charconv>

#include "hymn/error.hpp"

namespace hymn {
namespace {

bool read_bits(std::string_view digits, InterfaceEntry& entry) {
  const char* const end = digits.data() + digits.size();
  const auto [stop, problem] = std::from_chars(digits.data(), end, entry.bits);
  return problem == std::errc() && stop == end && entry.bits >= 0 &&
         entry.bits <= (entry.is_v4 ? 32 : 128);
}

bool read_network(std::string_view text, std::size_t slash, InterfaceEntry& entry) {
  const std::string address(text.substr(0, slash));
  entry.is_v4 = address.find(':') == std::string::npos;
  return ::inet_pton(entry.is_v4 ? AF_INET : AF_INET6, address.c_str(), entry.address.data()) ==
             1 &&
         read_bits(text.substr(slash + 1), entry);
}

}  // namespace

InterfaceList parse_interface_list(std::string_view list, std::string_view source) {
  InterfaceList parsed;
  if (list.empty()) return parsed;
  parsed.excludes = list.starts_with('^');
  std::string_view rest = list.substr(parsed.excludes ? 1 : 0);
  while (true) {
    const std::size_t comma = rest.find(',');
    const std::string_view text = rest.substr(0, comma);
    if (text.empty())
      throw ConfigError(fmt::format("{}='{}' has an empty entry", source, list),
                        {.remedy = "give names or networks with one comma between them"});
    InterfaceEntry entry;
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos)
      entry.name = text;
    else if (!read_network(text, slash, entry))
      throw ConfigError(fmt::format("{}='{}': '{}' is not a network", source, list, text),
                        {.remedy = "give networks as 10.0.0.0/8, and interfaces by their names"});
    parsed.entries.push_back(std::move(entry));
    if (comma == std::string_view::npos) return parsed;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace hymn
