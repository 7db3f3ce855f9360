// One call for values of any size: what all that take part learn before the values come.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "hymn/objects.hpp"
#include "runtime/group/group_state.hpp"

namespace hymn::detail {

/// What is known of a value before it comes.
struct ObjectEnvelope {
  static constexpr std::uint32_t right_mark = 0x656a626f;

  enum class Outcome : std::uint32_t {
    packed,
    failed,     ///< its format has thrown, or there is no such value
    too_large,  ///< more bytes than its rank's options let pass
  };

  std::uint32_t mark = right_mark;
  Outcome outcome = Outcome::packed;
  std::uint64_t bytes = 0;
  std::uint64_t max_bytes = 0;  ///< what its rank lets pass
};

class ObjectCall {
 public:
  /// `site`: where the call returns to in the user's code. `options` must outlive it.
  ObjectCall(const ProcessGroup& group, const char* name, const ObjectOptions& options,
             const void* site)
      : state_(need(group)), name_(name), options_(options), site_(site) {
    state_.works().scopes().require_none(name, state_.members());
  }

  bool is_member() const { return state_.members().is_member(); }
  std::size_t size() const { return state_.members().ranks().size(); }
  ErrorContext context(std::string remedy = {}) const;

  RecvStatus run(const Request& request) const {
    return state_.run(request, {.timeout = options_.timeout}, site_);
  }
  /// Of the i-th value that this rank gives.
  ObjectEnvelope envelope_of(const PackedObjects& objects, std::size_t i = 0) const;
  /// Of all members, of which each gives one value; empty on a rank outside.
  std::vector<ObjectEnvelope> all_envelopes(const PackedObjects& objects) const;

  /// Throws UsageError where no member has this rank.
  void require_root(int root) const;
  /// Throws unless the value comes that this envelope of `source` tells of: `own_error` where it
  /// was this rank that could not pack it.
  void require(const ObjectEnvelope& envelope, int source,
               const std::exception_ptr& own_error = nullptr) const;
  /// The same for the envelopes of all members, and for the sum. The sizes of all.
  std::vector<std::size_t> require_all(std::span<const ObjectEnvelope> envelopes,
                                       const std::exception_ptr& own_error) const;
  /// Throws UsageError for more than this rank lets pass.
  void require_room(std::uint64_t bytes) const { require_room(bytes, options_.max_bytes); }

  /// What others count on: where it fails here, the group is given up, so that nobody waits for it.
  template <class Step>
  auto in_step(Step step) const {
    try {
      return step();
    } catch (...) {
      give_up(std::current_exception());
    }
  }

 private:
  void require_room(std::uint64_t bytes, std::uint64_t max_bytes) const;
  [[noreturn]] void give_up(std::exception_ptr error) const;

  GroupState& state_;
  const char* name_;
  const ObjectOptions& options_;
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
