#include "hymn/settings.hpp"
#include "hymn_build_info.hpp"

namespace hymn {

const char* version() noexcept { return build_info::version; }

}  // namespace hymn
