// A request that outlives the call that made it.
#pragma once

#include <cstdint>
#include <vector>

#include "hymn/request.hpp"

namespace hymn {

/// Owns its lists, counts, shapes and strides; never the data.
class OwnedRequest {
 public:
  explicit OwnedRequest(const Request& request);
  /// The same call over these lists, which it takes over; an empty one: it has nothing on that
  /// side.
  OwnedRequest(const Request& call, std::vector<ConstBufferView> inputs,
               std::vector<BufferView> outputs);
  OwnedRequest(const OwnedRequest&) = delete;
  OwnedRequest& operator=(const OwnedRequest&) = delete;
  const Request& get() const { return request_; }

 private:
  void own_shapes();

  std::vector<ConstBufferView> inputs_;
  std::vector<BufferView> outputs_;
  std::vector<std::size_t> input_counts_;
  std::vector<std::size_t> output_counts_;
  std::vector<std::vector<std::int64_t>> dimensions_;
  Request request_;
};

}  // namespace hymn
