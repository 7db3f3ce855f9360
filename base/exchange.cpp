#include "hymn/exchange.hpp"

namespace hymn {

Exchange::~Exchange() = default;

}  // namespace hymn
