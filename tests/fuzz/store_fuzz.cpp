// Requests to the server of a store, one after the other, that anybody may have written; each has
// its length before it, in two bytes.
#include <map>
#include <span>

#include "control/store_service.hpp"
#include "tests/fuzz/fuzz.hpp"

namespace {

using namespace hymn;

/// Each request is answered no more than once, and in time.
class Service {
 public:
  void handle(const StoreRequest& request) {
    const int client = ++requests_;  // each from a client of its own, so that answers can be told
    const bool waits = service_.handle(client, request, now_);
    fuzz::require(waits == (answers_[client] == 0), "what does not wait is answered");
    now_ += std::chrono::seconds(1);
    if (requests_ % 7 == 0) service_.expire(now_);
  }
  void end() {
    service_.expire(TimePoint::max() - std::chrono::hours(1));
    for (const auto& [client, count] : answers_)
      fuzz::require(count <= 1, "nobody is answered twice");
    for (int client = 1; client <= requests_; ++client) service_.forget(client);
    fuzz::require(service_.next_deadline().is_never(), "nobody waits who is gone");
  }

 private:
  int requests_ = 0;
  TimePoint now_ = TimePoint() + std::chrono::hours(1);
  std::map<int, int> answers_;
  StoreService service_{[this](int client, const StoreReply& reply) {
    ++answers_[client];
    fuzz::require(unpack_reply(pack(reply)) == reply, "a reply comes back as it was");
  }};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::byte> rest(reinterpret_cast<const std::byte*>(data), size);
  Service service;
  while (rest.size() >= 2) {
    const std::size_t wanted =
        std::to_integer<std::size_t>(rest[0]) + 256 * std::to_integer<std::size_t>(rest[1]);
    rest = rest.subspan(2);
    const auto message = rest.first(std::min(wanted, rest.size()));
    rest = rest.subspan(message.size());
    try {
      const StoreRequest request = unpack_request(message);
      const Bytes packed = pack(request);
      fuzz::require(std::equal(packed.begin(), packed.end(), message.begin(), message.end()),
                    "a request goes back to the bytes it came from");
      service.handle(request);
    } catch (const NetworkError& error) {
      fuzz::require(!error.problem().empty(), "an error has a text");
    }
    try {
      unpack_reply(message);
    } catch (const NetworkError& error) {
      fuzz::require(!error.problem().empty(), "an error has a text");
    }
  }
  service.end();
  return 0;
}
