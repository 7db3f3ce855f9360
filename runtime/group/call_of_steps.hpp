// A call that is made of several operations of its group, of which none is any use without the
// others.
#pragma once

#include <exception>
#include <span>
#include <string>

#include "hymn/buffer.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn::detail {

class CallOfSteps {
 public:
  /// `site`: where the call returns to in the user's code. `timeout` is that of each operation.
  CallOfSteps(const ProcessGroup& group, const char* name, Timeout timeout, const void* site);

  bool is_member() const { return state_.members().is_member(); }
  std::size_t size() const { return state_.members().ranks().size(); }
  ErrorContext context(std::string remedy = {}) const;

  RecvStatus run(const Request& request, const ReadyCall& ready = {}) const {
    return state_.run(request, {.timeout = timeout_}, site_, ready);
  }

  /// What others count on: where it fails here, the group is given up, so that nobody waits for it.
  template <class Step>
  auto in_step(Step step) const {
    try {
      return step();
    } catch (...) {
      give_up(std::current_exception());
    }
  }

 protected:
  GroupState& state() const { return state_; }

 private:
  [[noreturn]] void give_up(std::exception_ptr error) const;

  GroupState& state_;
  const char* name_;
  Timeout timeout_;
  const void* site_;
};

template <class Range>
ConstBufferView bytes_view(const Range& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.data(), bytes.size(), DataType::uint8};
}
template <class Range>
BufferView writable_bytes_view(Range& values) {
  const auto bytes = std::as_writable_bytes(std::span(values));
  return {bytes.data(), bytes.size(), DataType::uint8};
}

}  // namespace hymn::detail
