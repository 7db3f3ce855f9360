// A call of another worker's that is carried out here.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "rpc/agent_state.hpp"

namespace hymn::rpc::detail {

class ServedCall final : public Answer {
 public:
  ServedCall(AgentPtr agent, int caller, const MessageHead& head, std::string name);
  ~ServedCall() override;

  bool keeps_value() const override { return (flags_ & rpc::detail::keeps_value) != 0; }
  void give(Packed result) override;
  void keep(StoredValue result) override;
  void fail(std::exception_ptr error) override;

  /// For who asks for a value that is kept: when that is made.
  void give_when_made(const RefPtr& kept, bool is_copied);

  /// Unless its time has passed.
  void run(Packed& arguments, std::uint64_t type);

 private:
  void send(MessageKind kind, Packed packed);
  std::exception_ptr unsendable(const Error& error) const;
  RemoteOrigin origin() const;

  AgentPtr agent_;
  int caller_;
  std::uint64_t call_;
  std::uint16_t flags_;
  RefId ref_;
  Deadline limit_;
  std::string name_;
  std::string site_ = "?";
  std::shared_ptr<OwnedValue> kept_;
  std::uint64_t context_;
  std::atomic<bool> is_answered_{false};
};

}  // namespace hymn::rpc::detail
