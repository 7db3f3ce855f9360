// What HYMN_INTERFACE says: which network interfaces, or all but which.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace hymn {

/// An interface by its name, or those with an address of a network.
struct InterfaceEntry {
  std::string name{};  ///< empty: a network
  bool is_v4 = true;
  std::array<unsigned char, 16> address{};  ///< in the order of the network; of IPv4 the first four
  int bits = 0;                             ///< of the address that count
};

struct InterfaceList {
  bool excludes = false;
  std::vector<InterfaceEntry> entries{};
};

/// "eth0,10.0.0.0/8", with "^" before it: all but these. Empty: no entries. Throws ConfigError,
/// which quotes the list; `source` is where it came from, the name of a variable.
InterfaceList parse_interface_list(std::string_view list, std::string_view source);

}  // namespace hymn
