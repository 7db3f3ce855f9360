// One call for values of any size: what all that take part learn before the values come.
#pragma once

#include <array>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "hymn/objects.hpp"
#include "runtime/group/call_of_steps.hpp"

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

class ObjectCall : public CallOfSteps {
 public:
  /// As of CallOfSteps. `options` must outlive it.
  ObjectCall(const ProcessGroup& group, const char* name, const ObjectOptions& options,
             const void* site)
      : CallOfSteps(group, name, options.timeout, site), options_(options) {}

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

 private:
  void require_room(std::uint64_t bytes, std::uint64_t max_bytes) const;

  const ObjectOptions& options_;
};

}  // namespace hymn::detail
