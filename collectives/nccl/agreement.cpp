#include "collectives/nccl/agreement.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

namespace hymn {

Bytes introduce(const NcclLibrary& nccl) {
  Packer packer;
  packer.number(static_cast<std::uint64_t>(nccl.version)).text(nccl.problem);
  return packer.packed();
}

std::string who_lacks_nccl(std::span<const int> members, std::span<const Bytes> words) {
  for (std::size_t i = 0; i < members.size(); ++i) {
    Unpacker unpacker(words[i]);
    unpacker.number();
    if (const std::string problem = unpacker.text(); !problem.empty())
      return fmt::format("NCCL cannot be used on rank {}: {}", members[i], problem);
  }
  return "";
}

void require_same_nccl(std::span<const int> members, std::span<const Bytes> words) {
  if (const std::string lacking = who_lacks_nccl(members, words); !lacking.empty())
    throw ConfigError(lacking, {.remedy = "install the same NCCL, 2.18 or newer, on all hosts, or "
                                          "allow another path"});
  std::map<int, std::vector<int>> ranks_by_version;
  for (std::size_t i = 0; i < members.size(); ++i) {
    Unpacker unpacker(words[i]);
    ranks_by_version[static_cast<int>(unpacker.number())].push_back(members[i]);
  }
  if (ranks_by_version.size() < 2) return;
  std::string versions;
  for (const auto& [version, ranks] : ranks_by_version)
    versions += fmt::format("{}{} on rank(s) {}", versions.empty() ? "" : "; ",
                            nccl_version_text(version), fmt::join(ranks, ", "));
  throw ConfigError(fmt::format("ranks have different versions of NCCL: {}", versions),
                    {.remedy = "install the same version on all hosts; look at LD_LIBRARY_PATH"});
}

}  // namespace hymn
