// One communicator of NCCL, from the exchange of its id to its end, as a step machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/meeting.hpp"
#include "collectives/nccl/shared_comm.hpp"
#include "hymn/exchange.hpp"

namespace hymn {

/// What NCCL is told about a communicator; what is not set it chooses itself.
struct NcclSettings {
  int min_ctas = nccl_api::Config::unset;  ///< blocks of threads on the GPU
  int max_ctas = nccl_api::Config::unset;
  int cga_cluster_size = nccl_api::Config::unset;
  std::string net_name{};  ///< "Socket", "IB", or a plugin's
  /// Whether NCCL's own calls may block until they are through. The making of communicators, which
  /// takes longest, has a thread of its own anyway.
  bool blocking = false;
};

/// What a communicator is made with.
struct NcclParts {
  nccl_api::Functions nccl;
  /// Makes the rank's GPU current on the thread that calls it. May be called on any thread.
  std::function<void()> enter_gpu;
  /// For threads that end communicators: they break no capture. Null: there is no driver.
  const cuda_api::Functions* cuda = nullptr;
  NcclSettings settings{};
};

/// No call blocks or waits but complete(). It is used by one thread at a time, but for abort().
/// Its destructor aborts what was not finished.
class NcclCommunicator {
 public:
  /// Of these global ranks, this one among them, who make it together. The first makes the id and
  /// sends it over `exchange` with `tag`, which nobody else uses. Nothing happens before the first
  /// step.
  NcclCommunicator(NcclParts parts, std::shared_ptr<Exchange> exchange, std::vector<int> members,
                   std::uint64_t tag);
  /// Split from `parent`, which must be ready and outlive the steps that make this one. All ranks
  /// of the parent do so, with their `color`: those of one are together, in the order of their
  /// ranks in the parent. nccl_api::no_color: in no part, and this one never gets a handle.
  NcclCommunicator(NcclParts parts, NcclCommunicator& parent, int color);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Goes on making it; true once it is ready. Throws BackendError when NCCL has failed.
  bool step();
  /// Steps until it is ready. Aborts it, and throws, when that fails, or TimeoutError when the
  /// deadline passes, or a member is hopeless, whom the error names: NCCL may be stuck by then.
  void complete(const Patience& patience);
  /// The same, but only until NCCL is at work by itself: steps find out when it is ready.
  void begin(const Patience& patience);

  bool is_ready() const { return stage_ == Stage::ready; }
  /// Once it is ready.
  nccl_api::Comm handle() const { return shared_->comm(); }
  /// As SharedComm::use(): for calls on the handle. Thread-safe.
  std::shared_ptr<void> use() const { return shared_->use(); }
  /// Whether NCCL is done with all that was asked of it, so that more may be. Throws BackendError
  /// when it has found, since it was made, that it cannot go on: a peer or a network was lost. To
  /// be asked again and again while something is in flight. False, too, while one is being split
  /// from it.
  bool check();

  /// Gives it up: what is in flight on it ends, some time later, with undefined results. From any
  /// thread.
  void abort() noexcept { shared_->abort(); }
  /// All ranks have finished what was in flight on it, and will do this, too.
  void finish() { shared_->finish(); }
  /// Whether NCCL has let go of it and of all buffers, after abort() or finish().
  bool is_gone() const { return shared_->is_gone(); }
  /// As SharedComm::when_gone(), though this one may have died by then.
  void when_gone(std::function<void()> act) { shared_->when_gone(std::move(act)); }

 private:
  enum class Stage : unsigned char { fresh, sending, receiving, calling, settling, ready };
  template <class Until>
  void step_until(Until until, const Patience& patience);
  bool is_first() const { return exchange_->rank() == members_.front(); }
  void send_id();
  bool has_sent() const;
  bool receive_id();
  void begin_init();
  void begin_split();
  bool has_settled();
  /// False while NCCL is busy with it.
  bool is_settled(const std::string& what) const;
  nccl_api::Config config() const;

  NcclParts parts_;
  std::shared_ptr<Exchange> exchange_;
  std::vector<int> members_;
  std::uint64_t tag_ = 0;
  std::vector<std::uint64_t> sent_{};  ///< the id, to each of the others
  NcclCommunicator* parent_ = nullptr;
  std::shared_ptr<std::atomic<int>> being_split_ = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<void> splits_parent_{};  ///< while nothing may be launched on the parent
  int color_ = 0;
  nccl_api::UniqueId id_{};
  Stage stage_ = Stage::fresh;
  std::shared_ptr<SharedComm> shared_;
};

}  // namespace hymn
