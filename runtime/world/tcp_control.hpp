// The control plane of ranks that are processes: connections over TCP to the coordinator, and eyes
// on the processes of the same host.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "runtime/rank/control_plane.hpp"

namespace hymn {

namespace control {
struct Neighbour;
struct ControlClientOptions;
}  // namespace control

class TcpControl final : public ControlPlane {
 public:
  /// `interface`: as HYMN_INTERFACE.
  TcpControl(std::string interface, Logger logger);
  ~TcpControl() override;

  std::string draw_secret() override;
  Bytes offer(const ControlSite& site) override;
  void open(std::shared_ptr<control::Agent> agent, std::span<const Bytes> offers,
            Calls calls) override;
  void post(const control::Message& message) override;
  void flush() override;
  const PeerRecorder* recorder_of(int rank) const override;
  void close() override;

 private:
  struct Life;
  /// Where it listens. Throws where this rank cannot keep one.
  std::string open_coordinator(control::ControlClientOptions options, std::size_t place);
  std::vector<control::Neighbour> look_around(std::span<const Bytes> offers);
  std::string interface_;
  Logger logger_;
  std::unique_ptr<Life> life_;
};

}  // namespace hymn
