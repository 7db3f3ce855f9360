#include "runtime/rank/world_life.hpp"

#include <fmt/format.h>

#include "base/error_context.hpp"

namespace hymn::detail {

WorldLife::WorldLife(int rank, std::shared_ptr<const Exchange> exchange,
                     const std::vector<std::unique_ptr<Mechanism>>& mechanisms)
    : rank_(rank), exchange_(std::move(exchange)) {
  for (const auto& mechanism : mechanisms)
    if (mechanism->has_gate()) gates_.push_back(mechanism.get());
}

void WorldLife::require_here(const ErrorContext& context) const {
  if (!is_copied()) [[likely]]
    return;
  ErrorContext where = context;
  where.remedy = "use hymn in the process that has made the World";
  throw UsageError(
      fmt::format(
          "this process is a child made by fork(): the world belongs to rank {}, its parent",
          rank_),
      std::move(where));
}

void WorldLife::require_drive(const ErrorContext& context) const {
  if (may_drive()) [[likely]]
    return;
  try {
    for (const Mechanism* gate : gates_) gate->require_drive();
  } catch (...) {
    rethrow_with(context);
  }
}

}  // namespace hymn::detail
