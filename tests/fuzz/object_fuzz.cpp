// Values as bytes that anybody may have sent: the first byte says which type is asked for.
#include <span>

#include "hymn/object_format.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/object_samples.hpp"

namespace {

using namespace hymn;

/// Whatever is taken comes back.
template <class T>
void check(const T& value) noexcept {
  fuzz::require(unpack_object<T>(pack_object(value)) == value,
                "a value comes back from its bytes as it was");
}

/// With a header, and without: no fuzzer guesses the number of a type.
template <class T>
void read(std::span<const std::byte> bytes) {
  const auto refused = [](const auto& take) {
    try {
      take();
    } catch (const PeerError& error) {
      fuzz::require(!error.problem().empty(), "an error has a text");
    } catch (const UsageError& error) {
      fuzz::require(!error.problem().empty(), "an error has a text");
    }
  };
  refused([&] { check(unpack_object<T>(bytes)); });
  refused([&] {
    ObjectReader in(bytes);
    T value{};
    in.get(value);
    check(value);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size)).subspan(1);
  switch (data[0] % 4) {
    case 0:
      read<test::Everything>(bytes);
      break;
    case 1:
      read<test::Tree>(bytes);
      break;
    case 2:
      read<std::vector<std::map<std::string, std::optional<std::string>>>>(bytes);
      break;
    case 3:
      read<std::vector<std::vector<bool>>>(bytes);
      break;
  }
  return 0;
}
