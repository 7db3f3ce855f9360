// The handles of the C API of training.
#pragma once

#include <memory>
#include <optional>

#include "hymn/gradient_reducer.hpp"
#include "hymn/hymn_training.h"
#include "hymn/interop_c.hpp"

struct hymnCommHook {
  hymn::training::CommHook hook;
};

struct hymnGradBucket {
  hymn::training::GradBucket bucket;
  std::unique_ptr<hymnGroup, hymnResult_t (*)(hymnGroup_t)> group{nullptr, &hymnGroupFree};
};

struct hymnGradMemory {
  std::shared_ptr<void> owner;
};

struct hymnGradientReducer {
  std::unique_ptr<hymn::training::GradientReducer> reducer;
  std::optional<hymn::training::GradientReducer::NoSync> no_sync{};
};
