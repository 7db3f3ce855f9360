// A group of threads whose members send each other messages.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "p2p/shm/heap_region.hpp"
#include "p2p/shm/shm_mail.hpp"

namespace hymn::test {

/// The mail of all members of a group of threads.
struct Office {
  explicit Office(int members, bool oversubscribed = true) {
    RegionPlan plan;
    const int control_block = ShmChannel::add_control_block(plan);
    const RingAreas areas = RingAreas::add_to(plan, members);
    const auto memory = std::make_shared<HeapMemory>(plan, members);
    std::vector<int> ranks;
    for (int rank = 0; rank < members; ++rank) ranks.push_back(rank);
    for (int rank = 0; rank < members; ++rank)
      mail.push_back(std::make_shared<ShmMail>(
          std::make_shared<ShmChannel>(HeapMemory::view(memory, rank), ranks, oversubscribed,
                                       control_block, [](const std::string&) {}),
          areas));
  }
  ShmMail& of(int member) { return *mail[static_cast<std::size_t>(member)]; }
  std::vector<std::shared_ptr<ShmMail>> mail;
};

}  // namespace hymn::test
