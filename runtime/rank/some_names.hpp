// Lists of ranks in messages, which must stay readable in jobs of thousands.
#pragma once

#include <string>
#include <vector>

namespace hymn {

/// With "; " between them; of more than eight the first eight, and how many more there are.
std::string some_of(std::vector<std::string> names);

}  // namespace hymn
