// Connections of hymn's own as a mechanism: for worlds without MPI, between members on different
// hosts, or, where the path `tcp` is asked for by its name, between all.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "p2p/tcp/tcp_net.hpp"
#include "runtime/mechanisms/mechanism.hpp"

namespace hymn {

/// Comes after shared memory, and before what goes across hosts.
class TcpMechanism final : public Mechanism {
 public:
  struct Site {
    int rank = 0;
    int size = 1;
    std::string interface{};  ///< as HYMN_INTERFACE
    PathPolicy path{};        ///< of the world
    tcp::Limits limits{};
  };
  TcpMechanism(Site site, Logger logger);

  void placed(const JobMap& job) override;
  Bytes offer(const Membership& membership, const GroupOptions& options) override;
  void open(NewGroup& group, std::span<const Word> offers, std::span<const Word> answers) override;
  void stand_by(const Membership& membership, const GroupOptions&, const Patience&) override;
  void close(const Membership& membership, bool clean) override;
  std::uint64_t dropped_messages() const override;
  std::string trouble_with(int rank) const override;
  void shut_down(WorldEnd end) override;

 private:
  struct Offer;
  bool is_wanted(const Membership& membership, const GroupOptions& options) const;
  std::shared_ptr<tcp::Net> net() const;
  void start();
  void learn(const Membership& membership, const std::vector<Offer>& offers);

  const Site site_;
  const Logger logger_;
  bool one_host_ = true;
  std::vector<int> here_;     ///< the ranks of this host
  Token token_{};             ///< rank 0 draws it, and the others learn it when the world is made
  mutable std::mutex mutex_;  // guards it: other threads ask, too
  std::shared_ptr<tcp::Net> net_;  ///< null: no group has needed one
};

}  // namespace hymn
