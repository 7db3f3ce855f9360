// Whether all ranks train the same model.
#pragma once

#include "training/model.hpp"

namespace hymn::training::detail {

/// The parameters as a model, which all ranks look at: where one of them cannot take its own, or
/// has others than the first rank, all of them throw.
std::shared_ptr<const Model> agreed_model(const ProcessGroup& group,
                                          std::vector<Parameter> parameters,
                                          const ReducerOptions& options);

}  // namespace hymn::training::detail
