// Names on the command line and what they stand for; sizes and times as people read them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "hymn/types.hpp"

namespace hymn {

/// Without those of programs and other libraries, of which a command knows nothing.
std::vector<std::string_view> dtype_names();
std::vector<std::string_view> op_names();

/// Throws BadArguments, which lists what there is.
std::size_t index_of(const std::string& name, const std::vector<std::string_view>& names,
                     std::string_view what);
/// Also by a short name: "bf16", "half", "i32", …
DataType dtype_named(const std::string& name);
/// premul_sum multiplies by 2: exact in every type, and seen at once when it is left out.
ReduceOp op_named(const std::string& name);

/// "64 KiB"; bytes where it is no whole number of larger units.
std::string show_bytes(std::size_t bytes);
/// "0.22 us", "12.1 us", "3.4 ms"
std::string show_time(double us);

}  // namespace hymn
