#include "control/interface.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <system_error>

#include "hymn/error.hpp"

namespace hymn {
namespace {

template <class Struct>
Struct read_as(const sockaddr* from) {
  Struct to{};
  std::memcpy(&to, from, sizeof to);
  return to;
}

template <class Bytes>
int count_ones(const Bytes& bytes) {
  int ones = 0;
  for (const unsigned char byte : bytes) ones += std::popcount(byte);
  return ones;
}

std::optional<InterfaceAddress> read_entry(const ifaddrs& entry) {
  if (entry.ifa_addr == nullptr) return std::nullopt;
  InterfaceAddress found;
  if (entry.ifa_addr->sa_family == AF_INET) {
    found.address =
        asio::ip::address_v4(ntohl(read_as<sockaddr_in>(entry.ifa_addr).sin_addr.s_addr));
    if (entry.ifa_netmask != nullptr)
      found.prefix_length = std::popcount(read_as<sockaddr_in>(entry.ifa_netmask).sin_addr.s_addr);
  } else if (entry.ifa_addr->sa_family == AF_INET6) {
    const auto read = read_as<sockaddr_in6>(entry.ifa_addr);
    asio::ip::address_v6::bytes_type bytes{};
    std::memcpy(bytes.data(), &read.sin6_addr, bytes.size());
    found.address = asio::ip::address_v6(bytes, read.sin6_scope_id);
    if (entry.ifa_netmask != nullptr)
      found.prefix_length = count_ones(read_as<sockaddr_in6>(entry.ifa_netmask).sin6_addr.s6_addr);
  } else {
    return std::nullopt;
  }
  found.name = entry.ifa_name;
  found.is_loopback = (entry.ifa_flags & IFF_LOOPBACK) != 0;
  found.is_up = (entry.ifa_flags & IFF_UP) != 0;
  return found;
}

/// A network as "10.0.0.0/8" says it.
struct Network {
  asio::ip::address address;
  int bits;
};

template <class Bytes>
bool begins_alike(const Bytes& a, const Bytes& b, int bits) {
  for (std::size_t i = 0; i < a.size() && bits > 0; ++i, bits -= 8) {
    const unsigned mask = bits >= 8 ? 0xffu : 0xffu << (8 - bits) & 0xffu;
    if (((a[i] ^ b[i]) & mask) != 0) return false;
  }
  return true;
}

bool contains(const Network& network, const asio::ip::address& address) {
  if (network.address.is_v4() != address.is_v4()) return false;
  return address.is_v4() ? begins_alike(network.address.to_v4().to_bytes(),
                                        address.to_v4().to_bytes(), network.bits)
                         : begins_alike(network.address.to_v6().to_bytes(),
                                        address.to_v6().to_bytes(), network.bits);
}

std::string describe(std::span<const InterfaceAddress> all) {
  std::string text;
  for (const InterfaceAddress& one : all)
    text += fmt::format("{}{} {}/{}{}", text.empty() ? "" : ", ", one.name, one.address.to_string(),
                        one.prefix_length, one.is_up ? "" : " (down)");
  return text.empty() ? "none" : text;
}

using Fits = std::function<bool(const InterfaceAddress&)>;

Fits parse_network(std::string_view entry, std::size_t slash, std::string_view wanted,
                   std::string_view source) {
  Network network{};
  asio::error_code error;
  network.address = asio::ip::make_address(std::string(entry.substr(0, slash)), error);
  const std::string_view digits = entry.substr(slash + 1);
  const auto [stop, problem] =
      std::from_chars(digits.data(), digits.data() + digits.size(), network.bits);
  const bool is_number = problem == std::errc() && stop == digits.data() + digits.size();
  if (error || !is_number || network.bits < 0 ||
      network.bits > (network.address.is_v4() ? 32 : 128))
    throw ConfigError(fmt::format("{}='{}': '{}' is not a network", source, wanted, entry),
                      {.remedy = "give networks as 10.0.0.0/8, and interfaces by their names"});
  return [network](const InterfaceAddress& one) { return contains(network, one.address); };
}

std::vector<Fits> parse_entries(std::string_view list, std::string_view wanted,
                                std::string_view source) {
  std::vector<Fits> entries;
  while (true) {
    const std::size_t comma = list.find(',');
    const std::string_view entry = list.substr(0, comma);
    if (entry.empty())
      throw ConfigError(fmt::format("{}='{}' has an empty entry", source, wanted),
                        {.remedy = "give names or networks with one comma between them"});
    if (const std::size_t slash = entry.find('/'); slash != std::string_view::npos)
      entries.push_back(parse_network(entry, slash, wanted, source));
    else
      entries.push_back([name = std::string(entry)](const auto& one) { return one.name == name; });
    if (comma == std::string_view::npos) return entries;
    list.remove_prefix(comma + 1);
  }
}

bool is_link_local(const InterfaceAddress& one) {
  return one.address.is_v6() && one.address.to_v6().is_link_local();
}

bool is_virtual_bridge(const InterfaceAddress& one) {
  constexpr std::array<std::string_view, 3> prefixes = {"docker", "virbr", "br-"};
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](std::string_view prefix) { return one.name.starts_with(prefix); });
}

/// The first that fits: of IPv4 if there is one, otherwise of IPv6.
const InterfaceAddress* first_of(std::span<const InterfaceAddress> all, const Fits& fits) {
  for (const bool v4 : {true, false})
    for (const InterfaceAddress& one : all)
      if (one.is_up && one.address.is_v4() == v4 && fits(one)) return &one;
  return nullptr;
}

const InterfaceAddress* choose(std::span<const InterfaceAddress> all, std::string_view wanted,
                               bool one_host, std::string_view source) {
  const bool excludes = wanted.starts_with('^');
  std::vector<Fits> entries;
  if (!wanted.empty()) entries = parse_entries(wanted.substr(excludes ? 1 : 0), wanted, source);
  if (!wanted.empty() && !excludes) {
    for (const Fits& entry : entries)
      if (const auto* found = first_of(all, entry)) return found;
    return nullptr;
  }
  const auto is_left = [&](const InterfaceAddress& one) {
    return !is_link_local(one) && std::none_of(entries.begin(), entries.end(),
                                               [&](const Fits& fits) { return fits(one); });
  };
  if (one_host)
    if (const auto* found =
            first_of(all, [&](const auto& one) { return one.is_loopback && is_left(one); }))
      return found;
  return first_of(all, [&](const auto& one) {
    return !one.is_loopback && !is_virtual_bridge(one) && is_left(one);
  });
}

}  // namespace

std::vector<InterfaceAddress> interface_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0)
    throw ResourceError(fmt::format("the network interfaces cannot be listed: {}",
                                    std::generic_category().message(errno)));
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> held(list, &::freeifaddrs);
  std::vector<InterfaceAddress> all;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next)
    if (auto found = read_entry(*entry)) all.push_back(*std::move(found));
  return all;
}

InterfaceAddress choose_interface(std::span<const InterfaceAddress> all, std::string_view wanted,
                                  bool one_host, std::string_view source) {
  if (const auto* found = choose(all, wanted, one_host, source)) return *found;
  throw ConfigError(
      fmt::format("{}='{}' leaves no network interface for {}; there are: {}", source, wanted,
                  one_host ? "the ranks of this host" : "ranks on several hosts", describe(all)),
      {.remedy = "name an interface or a network that is up on every host"});
}

}  // namespace hymn
