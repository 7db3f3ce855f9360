// What pickle.load() of Python reads.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace hymn {

/// By its protocol 2: objects become dicts, arrays lists, numbers int or float. `value` holds no
/// binary.
std::string pickle(const nlohmann::ordered_json& value);

}  // namespace hymn
