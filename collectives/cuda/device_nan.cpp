#include "collectives/cuda/device_nan.hpp"

#include <algorithm>
#include <utility>

#include "hymn/error.hpp"

namespace hymn::cuda {
namespace {

constexpr std::uint64_t nothing_found = ~std::uint64_t{0};

/// How elements of a type are looked at: a complex number is two.
struct Look {
  const char* kernel = nullptr;
  std::size_t parts = 1;
};

Look look_at(DataType dtype) {
  switch (dtype) {
    case DataType::float16:
      return {"hymn_find_nan_float16"};
    case DataType::bfloat16:
      return {"hymn_find_nan_bfloat16"};
    case DataType::float32:
      return {"hymn_find_nan_float32"};
    case DataType::float64:
      return {"hymn_find_nan_float64"};
    case DataType::complex64:
      return {"hymn_find_nan_float32", 2};
    case DataType::complex128:
      return {"hymn_find_nan_float64", 2};
    case DataType::boolean:
    case DataType::int8:
    case DataType::uint8:
    case DataType::int16:
    case DataType::uint16:
    case DataType::int32:
    case DataType::uint32:
    case DataType::int64:
    case DataType::uint64:
    case DataType::float8_e4m3fn:
    case DataType::float8_e5m2:
    case DataType::value:
    case DataType::opaque:
      break;
  }
  throw UsageError("no element of this type can be a NaN");
}

unsigned blocks_to_search(std::size_t elements) {
  constexpr std::size_t most = 1024;  // enough to have every GPU read at full speed
  constexpr std::size_t per_block = std::size_t{threads_of_block} * 4;
  return static_cast<unsigned>(std::clamp<std::size_t>(elements / per_block, 1, most));
}

}  // namespace

// What was given up and has come to no end is left to the driver, which may still write there.
DeviceNan::~DeviceNan() {
  for (const Word& word : given_up_) reclaim(word);
}

bool DeviceNan::reclaim(const Word& word) noexcept {
  try {
    if (word.event != nullptr && !kernels_.gpu().has_happened(word.event)) return false;
    words_.give_back(word.block);
    if (word.event != nullptr) kernels_.gpu().give_back(word.event);
    return true;
  } catch (...) {
    return false;
  }
}

// The word is memory of the host that the GPU writes to: it has nothing else to bring back.
DeviceNan::Search::Search(DeviceNan& home, const ConstBufferView& view, cuda_api::Stream stream)
    : home_(home), view_(view) {
  {
    std::lock_guard lock(home.mutex_);
    std::erase_if(home.given_up_, [&home](const Word& word) { return home.reclaim(word); });
  }
  const Look look = look_at(view.dtype);
  const std::uint64_t elements = view.count * look.parts;
  word_ = home.words_.take(sizeof(std::uint64_t));
  auto* const found = static_cast<std::uint64_t*>(word_.data);
  *found = nothing_found;
  try {
    home.kernels_.launch(look.kernel, blocks_to_search(elements), stream, view.data, elements,
                         found);
    event_ = home.kernels_.gpu().mark(stream);
  } catch (...) {
    home.words_.give_back(word_);
    throw;
  }
}

DeviceNan::Search::~Search() {
  const Word word{word_, event_};
  if (home_.reclaim(word)) return;
  std::lock_guard lock(home_.mutex_);
  home_.given_up_.push_back(word);
}

std::size_t DeviceNan::Search::result() const {
  const std::uint64_t found = *static_cast<const std::uint64_t*>(word_.data);
  return found == nothing_found ? view_.count : found / look_at(view_.dtype).parts;
}

}  // namespace hymn::cuda
