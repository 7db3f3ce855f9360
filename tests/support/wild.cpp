#include "tests/support/wild.hpp"

#include <cstring>

#include "tests/unit/reduce_reference.hpp"

namespace hymn::test {
namespace {

// The elements repeat after so many: drawing them takes long.
constexpr std::size_t period = 509;

template <class Element>
std::vector<Element> draw_period(Element (*draw)(reference::Random&), int rank, int salt) {
  reference::Random random(static_cast<std::uint64_t>(rank) * 1000003 +
                           static_cast<std::uint64_t>(salt));
  std::vector<Element> elements(period);
  for (Element& element : elements) element = draw(random);
  return elements;
}

/// Writes elements first … first + count of those that repeat.
template <class Element>
void store(BufferView view, std::size_t first, const std::vector<Element>& elements) {
  auto* const at = static_cast<std::byte*>(view.data);
  for (std::size_t i = 0; i < view.count; ++i)
    std::memcpy(at + i * sizeof(Element), &elements[(first + i) % period], sizeof(Element));
}

}  // namespace

bool is_free_of_order(DataType dtype, ReduceKind kind) {
  // The reference of premul_sum has one factor for all ranks.
  if (!is_defined(dtype, kind) || kind == ReduceKind::premul_sum) return false;
  const DataFamily family = traits_of(dtype).family;
  return family == DataFamily::boolean || family == DataFamily::integer ||
         kind == ReduceKind::min || kind == ReduceKind::max;
}

void fill_wild(BufferView view, int rank, int salt, std::size_t first) {
  reference::with_reference(view.dtype, [&]<class Reference>() {
    store(view, first, draw_period(&Reference::random, rank, salt));
  });
}

Buffer wild_result(DataType dtype, ReduceKind kind, std::span<const int> ranks, int salt,
                   std::size_t count, std::size_t first) {
  Buffer result(dtype, count);
  reference::with_reference(dtype, [&]<class Reference>() {
    using Element = typename Reference::Element;
    std::vector<reference::Column<Element>> columns(period);
    for (const int rank : ranks) {
      const std::vector<Element> inputs = draw_period(&Reference::random, rank, salt);
      for (std::size_t i = 0; i < period; ++i) columns[i].values.push_back(inputs[i]);
    }
    std::vector<Element> results;
    for (const auto& column : columns) results.push_back(Reference::reduce(kind, column));
    store(result.view(), first, results);
  });
  return result;
}

}  // namespace hymn::test
