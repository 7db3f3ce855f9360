// Connections of hymn's own as a mechanism: for worlds without MPI, between members on different
// hosts; in all worlds of processes, where the path `tcp` is asked for by its name, between all;
// and beside MPI, where it has been measured between hosts.
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "p2p/tcp/tcp_net.hpp"
#include "runtime/mechanisms/mechanism.hpp"

namespace hymn {

/// Comes after shared memory, and before what goes across hosts, MPI too: who asks for this path by
/// its name has it between hosts in the hierarchy.
class TcpMechanism final : public Mechanism {
 public:
  struct Site {
    int rank = 0;
    int size = 1;
    std::string interface{};  ///< as HYMN_INTERFACE
    PathPolicy path{};        ///< of the world
    bool beside_mpi = false;  ///< which carries what goes between hosts unless this is wanted
    int streams = 1;          ///< as HYMN_TCP_STREAMS
  };
  TcpMechanism(Site site, Logger logger);

  void placed(const JobMap& job) override;
  void measured(const std::shared_ptr<const TuningTable>& table) override { tuning_ = table; }
  Bytes offer(const Membership& membership, const GroupOptions& options) override;
  void open(NewGroup& group, std::span<const Word> offers, std::span<const Word> answers) override;
  void stand_by(const Membership& membership, const GroupOptions&, const Patience&) override;
  void close(const Membership& membership, bool clean) override;
  std::uint64_t dropped_messages() const override;
  std::string trouble_with(int rank) const override;
  bool move(const std::function<bool(int rank)>& is_dead) override;
  void shut_down(WorldEnd end) override;

 private:
  struct Offer;
  bool is_wanted(const Membership& membership, const GroupOptions& options) const;
  bool has_measured(std::size_t ranks) const;
  std::shared_ptr<tcp::Net> net() const;
  void start();
  void learn(const Membership& membership, const std::vector<Offer>& offers);

  const Site site_;
  const Logger logger_;
  bool one_host_ = true;
  std::vector<int> here_;  ///< the ranks of this host
  std::shared_ptr<const TuningTable> tuning_;
  Token token_{};             ///< rank 0 draws it, and the others learn it when the world is made
  mutable std::mutex mutex_;  // guards it: other threads ask, too
  std::shared_ptr<tcp::Net> net_;  ///< null: no group has needed one
};

}  // namespace hymn
