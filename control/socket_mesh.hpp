// Connections between all ranks of a job that each pair of them has proved to be its own: sockets
// for a protocol that is none of the control plane's business.
//
// Each rank connects to those below it, and lets those above it come. Both ends prove that they
// know the job's token (control/handshake.hpp); who cannot gets nothing but a refusal. When all are
// there nobody listens any more.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "base/private.hpp"
#include "control/token.hpp"
#include "hymn/timeout.hpp"

namespace hymn {

struct SocketMeshOptions {
  int rank = 0;
  int size = 1;
  bool one_host = true;        ///< local sockets are enough; else TCP
  std::string interface = {};  ///< as HYMN_INTERFACE
  std::string service = {};    ///< what the connections are for
};

/// One rank's part. For one thread.
class SocketMesh {
 public:
  SocketMesh() = default;
  SocketMesh(const SocketMesh&) = delete;
  SocketMesh& operator=(const SocketMesh&) = delete;
  virtual ~SocketMesh() = default;

  /// Where this rank listens, as text for the others.
  virtual const std::string& endpoint() const = 0;

  /// The sockets of all other ranks, in the order of ranks, non-blocking; this rank's own place is
  /// empty. TCP ends one after 10 s without a word while nothing waits to be sent; else a
  /// SilenceWatch tells. `endpoints`: those of all. Throws TimeoutError naming who has not come,
  /// NetworkError where a rank cannot be reached or proves nothing, ConfigError for an endpoint
  /// that is none.
  virtual std::vector<Descriptor> connect(const std::string& token,
                                          const std::vector<std::string>& endpoints,
                                          Deadline deadline) = 0;
};

/// Listens from now on. Throws NetworkError where that is not possible, ConfigError for an
/// interface that is not there.
HYMN_PRIVATE std::unique_ptr<SocketMesh> listen_for_mesh(const SocketMeshOptions& options);

/// A new token as text: for who hands it out.
HYMN_PRIVATE std::string new_mesh_token();

}  // namespace hymn
