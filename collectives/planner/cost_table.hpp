// The figures behind the planner's predictions: one table, each row with what it stands on.
#pragma once

#include <span>
#include <string_view>

#include "topology/machine.hpp"

namespace hymn {

/// What surrounds the ranks that a row is about.
enum class CostSetting : unsigned char {
  one_host,        ///< with a core for every rank
  oversubscribed,  ///< one host, more ranks than cores
  several_hosts,   ///< what software adds between hosts; the wire comes on top
};

/// time = start + rounds * per_round + bytes a rank moves * (per_byte + 1 / (link * link_share)).
/// docs/tuning.md tells how many rounds and bytes each collective has.
struct CostRow {
  std::string_view path;
  std::string_view method;
  CostSetting setting = CostSetting::one_host;
  double start = 0;             ///< seconds
  double per_round = 0;         ///< seconds
  double per_byte_moved = 0;    ///< seconds, where data is only moved
  double per_byte_reduced = 0;  ///< seconds, where it is combined
  double link_share = 0;  ///< part of the links' nominal bandwidth that is reached; 0: no links
  std::string_view stands_on;
};

std::span<const CostRow> cost_table();

/// The row of a method in a setting, or of the method on one host where the setting has none.
/// There is one for all that path_models() names.
const CostRow& cost_row(std::string_view path, std::string_view method, CostSetting setting);

/// What a link of that kind carries where the machine's description does not say: bytes per second
/// in one direction.
double usual_bandwidth(GpuLinkKind kind);
/// The same for the network.
double usual_network_bandwidth();

}  // namespace hymn
