#include "tools/pictures.hpp"

#include <string_view>

#include "hymn/error.hpp"
#include "hymn/settings.hpp"
#include "tools/loaded.hpp"

namespace hymn {

const Pictures& pictures() {
  static const auto& table = *static_cast<const Pictures*>(loaded_name(
      picture_library, picture_table,
      {.lack = "this hymn draws no pictures", .remedy = "build and install all of hymn again"}));
  if (std::string_view(table.version) == version()) return table;
  throw UnsupportedError(
      std::string(picture_library) + " is of hymn " + table.version + ", not " + version(),
      {.remedy = "build and install all of hymn again"});
}

}  // namespace hymn
